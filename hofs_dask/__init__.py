"""Higher order feature selection on Dask: which features matter, and which work together."""

from hofs_dask.api import encode, select
from hofs_dask.config import HOFS, METHODS
from hofs_dask.data.codes import CodeStore
from hofs_dask.errors import CodeStoreError
from hofs_dask.selection import Selection, load

__all__ = [
    "HOFS",
    "METHODS",
    "CodeStore",
    "CodeStoreError",
    "Selection",
    "encode",
    "load",
    "select",
]
