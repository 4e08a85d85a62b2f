"""The one numba decorator of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """The function compiled at its first call, free of the GIL.

    No on-disk cache and no threads: many workers that share a cache directory crash
    (https://github.com/numba/numba/issues/4807), and so do numba's threads under Dask's
    (https://github.com/numba/numba/issues/9288). The plain function stays at ``.py_func``.

    Examples
    --------
    >>> double = jit(lambda x: 2 * x)
    >>> double(21), double.py_func(21)
    (42, 42)
    """
    compiled: Any = numba.njit(nogil=True, cache=False, fastmath=False, parallel=False)(function)
    return cast(Function, compiled)
