"""Higher order feature selection on Dask: which features matter, and which work together."""

from importlib.metadata import version

from hofs_dask.api import encode, estimate, select
from hofs_dask.config import HOFS, METHODS
from hofs_dask.data.codes import CodeStore
from hofs_dask.errors import CheckpointError, CodeStoreError
from hofs_dask.events import PassDone, PassStarted, RoundEnded, RoundStarted
from hofs_dask.selection import Selection, load

__all__ = [
    "HOFS",
    "METHODS",
    "CheckpointError",
    "CodeStore",
    "CodeStoreError",
    "PassDone",
    "PassStarted",
    "RoundEnded",
    "RoundStarted",
    "Selection",
    "encode",
    "estimate",
    "load",
    "select",
]

__version__ = version("hofs-dask")
