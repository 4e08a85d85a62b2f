"""The command line ``hofs-dask``, one module per command.

Slow imports are made inside the commands that need them.
"""

import sys

try:
    from hofs_dask.cli.group import main
except KeyboardInterrupt:  # Ctrl-C during the import, before a command can handle it
    sys.stderr.write("\nAborted!\n" if sys.stderr.isatty() else "Aborted!\n")
    sys.exit(130)

__all__ = ["main"]
