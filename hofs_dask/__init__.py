"""Higher order feature selection on Dask: which features matter, and which work together."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hofs_dask.api import compare, encode, estimate, information_matrix, select
    from hofs_dask.comparison import Comparison, load
    from hofs_dask.config import (
        CIFE,
        CMIM,
        DISR,
        HOFS,
        ICAP,
        JMI,
        JMIM,
        METHODS,
        MIFS,
        MIM,
        MRMR,
        VMI,
        SpecCMI,
    )
    from hofs_dask.data.codes import CodeStore
    from hofs_dask.errors import CheckpointError, CodeStoreError
    from hofs_dask.events import PassDone, PassStarted, RoundEnded, RoundStarted
    from hofs_dask.selection import Selection

# Where each public name comes from: imported when it is asked for, so that the command line, which
# needs this module, answers --help at once.
_HOMES = {
    "CIFE": "config",
    "CMIM": "config",
    "DISR": "config",
    "HOFS": "config",
    "ICAP": "config",
    "JMI": "config",
    "JMIM": "config",
    "METHODS": "config",
    "MIFS": "config",
    "MIM": "config",
    "MRMR": "config",
    "VMI": "config",
    "CheckpointError": "errors",
    "CodeStore": "data.codes",
    "CodeStoreError": "errors",
    "Comparison": "comparison",
    "PassDone": "events",
    "PassStarted": "events",
    "RoundEnded": "events",
    "RoundStarted": "events",
    "Selection": "selection",
    "SpecCMI": "config",
    "compare": "api",
    "encode": "api",
    "estimate": "api",
    "information_matrix": "api",
    "load": "comparison",
    "select": "api",
}

__all__ = [
    "CIFE",
    "CMIM",
    "DISR",
    "HOFS",
    "ICAP",
    "JMI",
    "JMIM",
    "METHODS",
    "MIFS",
    "MIM",
    "MRMR",
    "VMI",
    "CheckpointError",
    "CodeStore",
    "CodeStoreError",
    "Comparison",
    "PassDone",
    "PassStarted",
    "RoundEnded",
    "RoundStarted",
    "Selection",
    "SpecCMI",
    "compare",
    "encode",
    "estimate",
    "information_matrix",
    "load",
    "select",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("hofs-dask")
    if name not in _HOMES:
        raise AttributeError(f"module 'hofs_dask' has no attribute {name!r}")
    value = getattr(import_module(f"hofs_dask.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
