"""Higher order feature selection on Dask: which features matter, and which work together."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hofs_dask.api import compare, encode, estimate, information_matrix, select
    from hofs_dask.errors import CheckpointError, CodeStoreError
    from hofs_dask.methods.options import (
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
    from hofs_dask.results.comparison import Comparison, load
    from hofs_dask.results.selection import Selection
    from hofs_dask.search.events import RoundEnded, RoundStarted, ScanEnded, ScanStarted
    from hofs_dask.store.codes import CodeStore

# Where each public name comes from: imported when it is asked for, so that the command line, which
# needs this module, answers --help at once.
_HOMES = {
    "CIFE": "methods.options",
    "CMIM": "methods.options",
    "DISR": "methods.options",
    "HOFS": "methods.options",
    "ICAP": "methods.options",
    "JMI": "methods.options",
    "JMIM": "methods.options",
    "METHODS": "methods.options",
    "MIFS": "methods.options",
    "MIM": "methods.options",
    "MRMR": "methods.options",
    "VMI": "methods.options",
    "CheckpointError": "errors",
    "CodeStore": "store.codes",
    "CodeStoreError": "errors",
    "Comparison": "results.comparison",
    "ScanEnded": "search.events",
    "ScanStarted": "search.events",
    "RoundEnded": "search.events",
    "RoundStarted": "search.events",
    "Selection": "results.selection",
    "SpecCMI": "methods.options",
    "compare": "api",
    "encode": "api",
    "estimate": "api",
    "information_matrix": "api",
    "load": "results.comparison",
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
    "RoundEnded",
    "RoundStarted",
    "ScanEnded",
    "ScanStarted",
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
