"""The types of a target, as inferred from its dtype."""

from __future__ import annotations

from typing import Any, Literal

#: Categories, integers or floating-point numbers.
TargetType = Literal["nominal", "integer", "number"]

#: The name of a feature. The parts of a tuple are the variable and its labels, such as ("T", 500).
Name = str | int | float | tuple[Any, ...]
