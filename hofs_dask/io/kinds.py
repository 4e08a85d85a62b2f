"""Two types that annotations use: the type of a target, and the name of a feature."""

from __future__ import annotations

from typing import Any, Literal

#: The type of a target, inferred from its dtype: categories, integers or floating-point numbers.
TargetType = Literal["nominal", "integer", "number"]

#: The name of a feature. A tuple has several parts, such as a variable and a label: ("T", 500).
Name = str | int | float | tuple[Any, ...]
