"""`Reading`: the options for reading and encoding data, declared once for all functions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

from hofs_dask.errors import unknown

#: The roles of columns with one value per sample. The options that give the columns have the
#: same names.
GROUPS, WEIGHTS, WHERE, LAGS, BY = "groups", "weights", "where", "lags", "by"


@dataclass(frozen=True)
class Reading:
    """The options for reading and encoding data. `hofs_dask.select` and `select_by` document them.

    Examples
    --------
    >>> Reading(bins=16).given()
    ['bins']
    """

    feature_dim: Hashable | Sequence[Hashable] | None = None
    feature_coord: Hashable | None = None
    feature_names: Sequence[Hashable] | None = None
    lags: Mapping[Hashable, Iterable[int]] | None = None
    nominal: Iterable[Hashable] | bool | None = None
    target_kind: str = "auto"
    bins: int | str | None = "auto"
    where: Any = None
    ignore_label: Any = None
    groups: Any = None
    weights: Any = None
    join: str = "exact"
    on_bad: str = "raise"
    by: Any = None

    def given(self) -> list[str]:
        """Return the names of the options that differ from their defaults."""
        return [
            field.name
            for field in fields(self)
            if (
                getattr(self, field.name) is not None
                if field.default is None
                else getattr(self, field.name) != field.default
            )
        ]

    def refuse_dims(self, what: str) -> None:
        """Raise a ValueError if an option that needs dims was given for data without dims.

        Examples
        --------
        >>> Reading(feature_dim="band").refuse_dims("an array")
        Traceback (most recent call last):
        ...
        ValueError: feature_dim is 'band', which names a dim of xarray data ...
        """
        if self.feature_dim is not None:
            raise ValueError(
                f"feature_dim is {self.feature_dim!r}, which names a dim of xarray data or of a "
                f"Zarr group that xarray wrote; the columns of {what} are its features: omit "
                "feature_dim"
            )
        for name in ("feature_coord", "lags"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, which needs the dims of xarray data, and "
                    f"{what} has none; omit {name}, or give an xarray object"
                )

    def refuse(self) -> None:
        """Raise a ValueError if an option was given for a code store, which is already encoded.

        The option ``where`` is accepted.

        Examples
        --------
        >>> Reading(bins=16).refuse()
        Traceback (most recent call last):
        ...
        ValueError: bins is 16, but the data is a code store, which is already encoded; leave ...
        """
        for name in self.given():
            if name == WHERE:
                continue
            value = getattr(self, name)
            plain = isinstance(value, str | int | float | None)
            shown = (
                repr(value)
                if plain or name in ("feature_dim", "feature_names", "nominal")
                else "given"
            )
            raise ValueError(
                f"{name} is {shown}, but the data is a code store, which is already encoded; leave "
                f"{name} out, or encode the data again with it"
            )


#: All options with their default values.
DEFAULTS = Reading()


def find_columns(names: Sequence[Hashable], given: Iterable[Hashable], what: str) -> list[int]:
    """Return the positions of features that were given by name or by position.

    Positions are accepted if all names are strings. ``what`` is the name of the option, for error
    messages.

    Examples
    --------
    >>> find_columns(["a", "b"], ["b", 0], "exclude")
    [1, 0]
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = given if isinstance(given, str) else names[0]
        raise TypeError(f"{what} is {given!r}; give a list of names, such as [{example!r}]")
    if what == "include" and isinstance(given, Set):
        raise TypeError("include is a set, which has no order; give a list of names")
    given = list(given)
    if not given:
        return []
    by_name = {name: i for i, name in enumerate(names)}
    positions = all(isinstance(name, str) for name in names)
    columns: list[int] = []
    for name in given:
        if name in by_name:
            column = by_name[name]
        elif positions and isinstance(name, int) and -len(names) <= name < len(names):
            column = name % len(names)
        else:
            raise unknown(f"feature in {what}", name, names)
        if column in columns:
            raise ValueError(f"{name!r} is twice in {what}; give it once")
        columns.append(column)
    return columns
