"""The shell face: ``hofs-dask`` and its commands, a file each.

What takes long to import is imported by the command that needs it, when it runs.
"""

import sys

try:
    from hofs_dask.cli.group import main
except KeyboardInterrupt:  # before there is a command that could take it
    sys.stderr.write("\nAborted!\n" if sys.stderr.isatty() else "Aborted!\n")
    sys.exit(130)

__all__ = ["main"]
