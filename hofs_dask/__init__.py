"""Higher order feature selection on Dask: which features matter, and which work together."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

# Where each name comes from: imported when it is asked for, so that the command line, which needs
# this module, answers --help at once.
_HOMES = {
    "CheckpointError": "hofs_dask.errors",
    "CodeStore": "hofs_dask.data.codes",
    "CodeStoreError": "hofs_dask.errors",
    "HOFS": "hofs_dask.config",
    "METHODS": "hofs_dask.config",
    "PassDone": "hofs_dask.events",
    "PassStarted": "hofs_dask.events",
    "RoundEnded": "hofs_dask.events",
    "RoundStarted": "hofs_dask.events",
    "Selection": "hofs_dask.selection",
    "encode": "hofs_dask.api",
    "estimate": "hofs_dask.api",
    "load": "hofs_dask.selection",
    "select": "hofs_dask.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hofs_dask' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
