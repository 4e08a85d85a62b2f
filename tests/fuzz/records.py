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


@dataclass(frozen=True)
class Subject:
    """An artefact that is written once, and damaged and used in every case.

    Attributes
    ----------
    name, variant : str
        Which subject it is, and by which of its uses.
    artefact : str
        The name of what is damaged, in the folder of the case.
    make : callable of Path
        Writes the honest artefact, and all else that the use needs, into a folder.
    use : callable of Path
        Returns the answer from what is in a folder.
    oracle : callable of Path, optional
        Returns the same answer by other means, where a changed artefact has a right answer.
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
        What it returned.
    error : str
        The kind and the text of what it raised.
    is_ours : bool
        Whether it was raised on purpose: by the package, as an error that users may expect.
    crash : str
        The signal that ended the child, or the time that it took too long.
    growth : int
        By how many bytes its memory grew at most.
    log : str
        The traceback, or the end of what the child wrote.
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
