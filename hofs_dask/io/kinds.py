"""What the type of a target says about it."""

from __future__ import annotations

from typing import Literal

#: Categories, whole numbers or any numbers.
TargetType = Literal["nominal", "integer", "number"]
