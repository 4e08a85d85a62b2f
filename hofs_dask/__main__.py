"""The command line: ``python -m hofs_dask``."""

from hofs_dask.cli import main

# Worker processes import this module too.
if __name__ == "__main__":
    main(prog_name="hofs-dask")
