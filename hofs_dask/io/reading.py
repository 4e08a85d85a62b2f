"""`Reading`: the options of reading data, declared once for all functions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Reading:
    """How data is read and encoded. `hofs_dask.select` documents the options.

    Examples
    --------
    >>> Reading(bins=16).given()
    ['bins']
    """

    feature_dim: Hashable | None = None
    nominal: Iterable[Hashable] | bool | None = None
    target_kind: str = "auto"
    bins: int | str | None = "auto"
    where: Any = None
    ignore_label: Any = None
    groups: Any = None
    weights: Any = None

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

    def refuse(self) -> None:
        """Raise a ValueError if an option was given for a code store, which has its own.

        Examples
        --------
        >>> Reading(bins=16).refuse()
        Traceback (most recent call last):
        ...
        ValueError: bins is 16, but the data is a code store, encoded with options of its own; ...
        """
        for name in self.given():
            value = getattr(self, name)
            plain = isinstance(value, str | int | float | None)
            shown = repr(value) if plain or name in ("feature_dim", "nominal") else "given"
            raise ValueError(
                f"{name} is {shown}, but the data is a code store, encoded with options of its "
                f"own; leave {name} out, or encode the data again with it"
            )


#: The options of a call that gives none.
DEFAULTS = Reading()
