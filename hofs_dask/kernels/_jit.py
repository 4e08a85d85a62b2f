"""The numba decorator of all kernels, and functions that compile them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher, OmittedArg
from numba.core.typeconv.castgraph import Conversion

from hofs_dask.kernels.cache import KernelCache, default_directory

Function = TypeVar("Function", bound=Callable[..., object])


def const(array: Any) -> Any:
    """Return the read-only form of a numba array type; arrays that tasks receive are read-only.

    Examples
    --------
    >>> str(const(numba.types.float64[:, ::1]))
    'readonly array(float64, 2d, C)'
    """
    return array.copy(readonly=True)


def jit(*signatures: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function at its first call and releases the GIL.

    Parameters
    ----------
    signatures
        Numba signatures of the function. The function is compiled only for these signatures, and
        the compiled code is kept on disk (see `hofs_dask.kernels.cache`). Give no signatures for a
        function that only other kernels call.

    Notes
    -----
    By default, numba compiles declared signatures when the module is imported. Here they are
    compiled at the first call or by `compile_kernels`. A declared signature is also used for
    arguments that convert to it safely, for example a writable array for a read-only parameter.

    Kernels do not use numba's parallel threads, which abort if they are started from threads of
    Dask (https://github.com/numba/numba/issues/9288). The attribute ``py_func`` is the plain Python
    function.

    Examples
    --------
    >>> double = jit(numba.types.int64(numba.types.int64))(lambda x: 2 * x)
    >>> double(21), double.py_func(21), len(double.signatures)
    (42, 42, 1)
    >>> double("a")
    Traceback (most recent call last):
    ...
    TypeError: <lambda> takes (int64), not (unicode_type)
    """

    def decorate(function: Function) -> Function:
        compiled: Any = numba.njit(nogil=True, cache=False, fastmath=False, parallel=False)(
            function
        )
        if signatures:
            compiled.declared = signatures
            compiled._compile_for_args = _chooser(compiled)
            # names of cache files depend only on the source of this package
            if function.__module__.startswith("hofs_dask.kernels."):
                compiled._cache = KernelCache(function, signatures, default_directory)
        return cast(Function, compiled)

    return decorate


def _chooser(compiled: Any) -> Callable[..., Any]:
    """Return the function that numba calls to choose and compile a declared signature."""

    def compile_for_args(*args: Any) -> Any:
        given = tuple(
            compiled.typeof_pyval(each.value if isinstance(each, OmittedArg) else each)
            for each in args
        )
        compiled._compilation_chain_init_hook()
        for signature in compiled.declared:
            if len(given) == len(signature.args) and all(
                _converts(compiled, *pair) for pair in zip(given, signature.args, strict=True)
            ):
                return compiled.compile(signature)
        wanted = " or ".join(f"({', '.join(map(str, each.args))})" for each in compiled.declared)
        name = compiled.py_func.__name__
        raise TypeError(f"{name} takes {wanted}, not ({', '.join(map(str, given))})")

    return compile_for_args


def _converts(compiled: Any, given: Any, wanted: Any) -> bool:
    found = compiled.typingctx.can_convert(given, wanted)
    return found is not None and found <= Conversion.safe


def kernels_in(modules: Iterable[ModuleType]) -> list[Any]:
    """Return the kernels in these modules that are called from Python."""
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, Dispatcher)
        and hasattr(each, "declared")
        and each.__module__ == module.__name__
    ]


def missing(kernels: Iterable[Any], dtypes: Collection[str] | None = None) -> list[str]:
    """Return the names of the kernels that are compiled neither in memory nor on disk.

    Only the signatures whose first argument has one of these ``dtypes`` are considered; by default,
    all declared signatures.
    """
    return [
        kernel.py_func.__name__
        for kernel in kernels
        for signature in kernel.declared
        if (dtypes is None or signature.args[0].dtype.name in dtypes)
        and signature.args not in kernel.overloads
        and not kernel._cache.holds(signature, kernel.targetctx)
    ]


def compile_kernels(kernels: Iterable[Any]) -> None:
    """Load every declared signature of the kernels from disk, or compile it."""
    for kernel in kernels:
        kernel._compilation_chain_init_hook()
        for signature in kernel.declared:
            kernel.compile(signature)


def all_kernels() -> list[Any]:
    """Return all kernels of the package that are called from Python."""
    folder = Path(__file__).parent
    names = sorted(each.stem for each in folder.glob("[!_]*.py"))
    return kernels_in(importlib.import_module(f"hofs_dask.kernels.{name}") for name in names)
