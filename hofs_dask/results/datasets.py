"""The Dataset behind a result: its variables, names and attributes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def annotated(
    columns: Mapping[str, NDArray[Any]], table: Mapping[str, tuple[str | tuple[str, ...], str, str]]
) -> dict[str, tuple[str | tuple[str, ...], NDArray[Any], dict[str, str]]]:
    """Return what xarray makes variables of: those of the table, with units and long names.

    Examples
    --------
    >>> annotated({"score": np.zeros(1)}, {"score": ("rank", "nats", "criterion")})
    {'score': ('rank', array([0.]), {'long_name': 'criterion', 'units': 'nats'})}
    """
    return {
        name: (dims, columns[name], {"long_name": long_name, "units": units})
        for name, (dims, units, long_name) in table.items()
    }


def plain(attrs: Mapping[str, object]) -> dict[str, str | float]:
    """Return the attributes as plain strings and numbers, which every store can hold.

    Examples
    --------
    >>> plain({"n_samples": np.int64(7), "whole": True})
    {'n_samples': 7, 'whole': 1}
    """
    return {name: _plain(name, value) for name, value in attrs.items()}


def label_array(names: Sequence[Hashable]) -> NDArray[Any]:
    """Return the names as an array of text, of integers, of floats, or, mixed, of objects.

    Examples
    --------
    >>> label_array([400, 412.5])
    array([400. , 412.5])
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    kinds = {type(name) for name in plain}
    for kinds_of_array, dtype in (({str}, str), ({int}, np.int64), ({int, float}, np.float64)):
        if kinds <= kinds_of_array:
            return np.array(plain, dtype=dtype)
    mixed = np.empty(len(plain), dtype=object)
    mixed[:] = plain
    return mixed


def _plain(name: str, value: object) -> str | float:
    """Return the attribute as a plain string or number, which every store can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"the attribute {name}={value!r} is a {type(value).__name__}; a string or a number was "
        "expected: use json.dumps"
    )
