"""Checks of dataclasses that are read from a checkpoint; each field is declared with its check.

A checkpoint may come from an untrusted source, so its values are checked against the sizes of the
problem before a method indexes an array with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np

#: Largest number that a state may contain. It is far above any number of nats or samples, and so
#: small that sums, squares and cubes of such numbers are finite.
LARGEST = 1e30
#: By how much a log probability may exceed zero because of rounding.
ROUNDING = 1e-6
#: Maximum number of samples: floats represent all integers up to this one exactly.
MOST_SAMPLES = 2**53

#: Sizes by name, such as the number of features.
Sizes = Mapping[str, int]
#: A function of a value and the sizes that raises a ValueError if the value is invalid.
Check = Callable[[Any, Sizes], None]


def checked(check: Check, default: Any = MISSING) -> Any:
    """Declare a field of a dataclass with a check of its value."""
    return field(default=default, metadata={"check": check})


def check_fields(record: Any, sizes: Sizes) -> None:
    """Check the fields of a dataclass object that were declared with `checked`.

    Raises
    ------
    ValueError
        If the value of a field is invalid; the message names the class and the field.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Found:
    ...     index: int = checked(Whole("feature"))
    >>> check_fields(Found(5), {"feature": 3})
    Traceback (most recent call last):
    ...
    ValueError: Found.index is not from 0 to 2
    """
    for item in fields(record):
        check = item.metadata.get("check")
        if check is None:
            continue
        try:
            check(getattr(record, item.name), sizes)
        except ValueError as error:
            raise ValueError(f"{type(record).__name__}.{item.name} {error}") from error


@dataclass(frozen=True)
class Whole:
    """Check of an integer, which must be at least `least` and less than the size named `below`."""

    below: str
    least: int = 0

    def __call__(self, value: Any, sizes: Sizes) -> None:
        """Check a value."""
        check_type(value, int)
        if value not in range(self.least, sizes[self.below]):
            raise ValueError(f"is not from {self.least} to {sizes[self.below] - 1}")


def finite(value: Any, _sizes: Sizes) -> None:
    """Check that a float is finite and at most `LARGEST`."""
    if type(value) is not float or not abs(value) <= LARGEST:
        raise ValueError("is not a finite number")


def number(value: Any, _sizes: Sizes) -> None:
    """Check that a value is a float; infinity and NaN are accepted."""
    check_type(value, float)


def flag(value: Any, _sizes: Sizes) -> None:
    """Check that a value is a bool."""
    check_type(value, bool)


def check_type(value: Any, kind: type) -> None:
    """Raise a ValueError if a value is not of exactly this type."""
    if type(value) is not kind:
        raise ValueError(f"has type {type(value).__name__}, not {kind.__name__}")


@dataclass(frozen=True)
class Items:
    """Check of a tuple: its length must be the size named `length`, and each item must be valid."""

    length: str
    item: Check

    def __call__(self, value: Any, sizes: Sizes) -> None:
        """Check a value."""
        if type(value) is not tuple or len(value) != sizes[self.length]:
            raise ValueError(f"is not a list of {sizes[self.length]} items")
        for item in value:
            self.item(item, sizes)


@dataclass(frozen=True)
class Floats:
    """Check of an array of floats, whose shape must be the sizes named `axes`.

    All values must be finite and at most `most`. The value `hole`, which marks an absent value, is
    also accepted. If `or_empty` is true, the first axis may have length 0.
    """

    axes: tuple[str, ...]
    hole: float | None = None
    most: float = LARGEST
    or_empty: bool = False

    def __call__(self, value: Any, sizes: Sizes) -> None:
        """Check a value."""
        value = _numbers(value, np.dtype(float), self.axes, sizes, or_empty=self.or_empty)
        if self.hole is not None:
            value = value[~np.isnan(value) if math.isnan(self.hole) else value != self.hole]
        _check_range(value, -LARGEST, self.most)


@dataclass(frozen=True)
class Wholes:
    """Check of an array of integers, whose shape must be the sizes named `axes`.

    All values must be at least `least` and less than the size named `below`. Without `below`, the
    values are numbers of samples, and must be at most `MOST_SAMPLES`.
    """

    axes: tuple[str, ...]
    least: int = 0
    below: str | None = None

    def __call__(self, value: Any, sizes: Sizes) -> None:
        """Check a value."""
        value = _numbers(value, np.dtype(int), self.axes, sizes, or_empty=False)
        _check_range(value, self.least, sizes[self.below] - 1 if self.below else MOST_SAMPLES)


def is_repeated(array: np.ndarray) -> bool:
    """Return whether an array is a single number, broadcast to a shape without taking memory."""
    return array.size > 1 and not any(array.strides)


def _numbers(
    value: Any, dtype: np.dtype[Any], axes: tuple[str, ...], sizes: Sizes, *, or_empty: bool
) -> np.ndarray:
    """Check the type and shape of an array, and return it; a broadcast number has one value."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        raise ValueError(f"is not an array of {dtype}")
    shape = tuple(sizes[axis] for axis in axes)
    if value.shape != shape and not (or_empty and value.shape == (0, *shape[1:])):
        raise ValueError(f"has shape {value.shape}, not {shape}")
    return value[(0,) * value.ndim].reshape(1) if is_repeated(value) else value


def _check_range(value: np.ndarray, least: float, most: float) -> None:
    # `not (... <= ...)` is true for NaN
    if value.size and not (least <= value.min() and value.max() <= most):
        raise ValueError(f"has values that are not from {least:.4g} to {most:.4g}")
