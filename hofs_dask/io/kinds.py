"""The types of a target, as inferred from its dtype."""

from __future__ import annotations

from typing import Literal

#: Categories, integers or floating-point numbers.
TargetType = Literal["nominal", "integer", "number"]
