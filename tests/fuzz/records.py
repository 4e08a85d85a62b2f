"""Records of the fuzzer: subjects, cases, reports of children and outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

#: Good outcomes of a case. All others are bad.
GOOD = ("same", "refused", "accepted forgery", "as zarr reads it")

Answer = dict[str, Any]


def answer_of(result: Any) -> Answer:
    """Return all values of a result, for a bitwise comparison."""
    dataset = result.to_dataset()
    figures: Answer = {"features": result.features}
    for name, variable in dataset.variables.items():
        values = variable.values
        plain = values.tolist() if values.dtype.kind in "OU" else values.tobytes()
        figures[str(name)] = (variable.dims, values.shape, values.dtype.kind, plain)
    return figures


@dataclass(frozen=True)
class Subject:
    """An artefact that is written once, and damaged and used in every case.

    Attributes
    ----------
    name, variant : str
        Names of the subject and of the way it is used.
    artefact : str
        Name of the artefact in the folder of the case.
    make : callable of Path
        Writes the undamaged artefact, and other required files, to a folder.
    use : callable of Path
        Returns the result from the files in a folder.
    oracle : callable of Path, optional
        Returns the same result by other means, if a changed artefact has a correct result.
    """

    name: str
    variant: str
    artefact: str
    make: Callable[[Path], None]
    use: Callable[[Path], Answer]
    oracle: Callable[[Path], Answer] | None = None


@dataclass(frozen=True)
class Case:
    """A case; equal seeds, subjects and numbers give equal damage."""

    seed: int
    subject: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.subject}-{self.number}"

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number, *self.subject.encode()])


@dataclass(frozen=True)
class Report:
    """Report of a function call in a child process.

    Attributes
    ----------
    answer : dict, optional
        The return value.
    error : str
        Type and message of the exception.
    is_ours : bool
        Whether the package raised the exception on purpose, as a documented error.
    crash : str
        The signal that ended the child, or the exceeded time limit.
    growth : int
        Peak growth of memory in bytes.
    log : str
        The traceback, or the end of the output of the child.
    """

    answer: Answer | None = None
    error: str = ""
    is_ours: bool = False
    crash: str = ""
    growth: int = 0
    log: str = ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case."""

    case: Case
    subject: Subject
    kind: str
    damage: tuple[str, ...] = ()
    details: str = ""
    log: str = field(default="", repr=False)

    @property
    def is_bad(self) -> bool:
        return self.kind not in GOOD

    def __str__(self) -> str:
        lines = [
            f"{self.kind}: {self.case.name} ({self.subject.variant})",
            *(f"  {each}" for each in self.damage),
            f"  {self.details[:1000]}",
            f"  repeat with: python -m tests.fuzz --seed {self.case.seed} --only {self.case.name}",
        ]
        return "\n".join(lines)
