"""The one numba decorator of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from hofs_dask.kernels.cache import KernelCache, default_directory

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Return the function compiled at its first call, free of the GIL.

    What is compiled is kept on disk, see `kernels.cache`. There are no threads: numba's crash under
    Dask's (https://github.com/numba/numba/issues/9288). The plain function stays at ``.py_func``.

    Examples
    --------
    >>> double = jit(lambda x: 2 * x)
    >>> double(21), double.py_func(21)
    (42, 42)
    """
    compiled: Any = numba.njit(nogil=True, cache=False, fastmath=False, parallel=False)(function)
    # the names of files know the source of this package alone
    if function.__module__.startswith("hofs_dask.kernels."):
        compiled._cache = KernelCache(function, default_directory)
    return cast(Function, compiled)
