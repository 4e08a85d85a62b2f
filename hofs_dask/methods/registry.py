"""All methods by name, in the order of their families."""

from __future__ import annotations

from hofs_dask.errors import unknown
from hofs_dask.methods import criteria, hofs, triples, vmi
from hofs_dask.methods.base import Method

FAMILIES = (hofs, criteria, triples, vmi)

#: The names of all methods, which the option ``method`` accepts.
METHOD_NAMES: tuple[str, ...] = tuple(
    name
    for family in FAMILIES
    for name, method in Method.registry.items()
    if method.__module__ == family.__name__
)
#: The names of HOFS and of the baselines in the HOFS paper; `compare` runs these by default.
METHODS: tuple[str, ...] = tuple(name for name in METHOD_NAMES if Method.registry[name].in_paper)


def as_method(method: object) -> Method:
    """Return the method object for a name, with default options; a method object is returned as is.

    Examples
    --------
    >>> as_method("mifs")
    MIFS(beta=1.0)
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        for kind in Method.registry.values():
            if method is kind:
                raise TypeError(f"method is a class; give an object: hofs_dask.{kind.__name__}()")
        raise TypeError(
            f"method is a {type(method).__name__}; give one of {METHOD_NAMES} or an object such as "
            "hofs_dask.HOFS(criterion='sum')"
        )
    if method not in Method.registry:
        raise unknown("method", method, METHOD_NAMES)
    return Method.registry[method]()
