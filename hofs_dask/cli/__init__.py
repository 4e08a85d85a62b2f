"""The shell face: ``hofs-dask`` and its commands, a file each.

What takes long to import is imported by the command that needs it, when it runs.
"""

from hofs_dask.cli.group import main

__all__ = ["main"]
