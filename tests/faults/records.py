"""Records of the harness: cases, injections, reports of drivers, and outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.fuzz.records import Answer

#: Good outcomes of a case. All others are bad.
GOOD = ("same", "resumed")


@dataclass(frozen=True)
class Injection:
    """A planned fault: its kind, and the moment in the run.

    Attributes
    ----------
    kind : str
        Name of the fault.
    after : int
        Number of events of the driver after which it happens.
    delay : float
        Seconds between this event and the fault.
    """

    kind: str
    after: int
    delay: float


@dataclass(frozen=True)
class Case:
    """A case; equal seeds and numbers give equal plans, not equal timing."""

    seed: int
    number: int

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number])


@dataclass(frozen=True)
class Round:
    """A round of a method, of which a driver reported the start or the end."""

    method: str
    rank: int


@dataclass
class Report:
    """What a driver did.

    Attributes
    ----------
    n_events : int
        Number of events until now.
    started, ended : list of Round
        Rounds that began, and rounds that ended, which are then saved.
    answer : dict, optional
        The result.
    error : str
        Type and message of the exception.
    log : str
        The traceback.
    crash : str
        The signal that ended the process, or that it hung.
    seconds : float
        Duration.
    """

    n_events: int = 0
    started: list[Round] = field(default_factory=list)
    ended: list[Round] = field(default_factory=list)
    answer: Answer | None = None
    error: str = ""
    log: str = ""
    crash: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    Attributes
    ----------
    case : Case
        The case.
    run : str
        Name of the run.
    kind : str
        The outcome.
    injected : tuple of tuple of str
        Kind and description of each fault that was injected.
    details : str
        Error of the first attempt, or what is wrong.
    seconds : float
        Duration of the case.
    log : str
        Traceback, if something is wrong.
    """

    case: Case
    run: str
    kind: str
    injected: tuple[tuple[str, str], ...]
    details: str
    seconds: float
    log: str = field(default="", repr=False)

    @property
    def is_bad(self) -> bool:
        return self.kind not in GOOD

    def __str__(self) -> str:
        faults = "; ".join(f"{kind} {text}" for kind, text in self.injected) or "nothing in time"
        lines = [
            f"{self.case.number:4d} {self.run:9s} {self.seconds:5.1f} s  {faults} -> {self.kind}"
        ]
        if self.details:
            lines.append(f"       {self.details[:300]}")
        if self.is_bad:
            repeat = f"--seed {self.case.seed} --only {self.case.number}"
            lines += [f"       repeat with: python -m tests.faults {repeat}", self.log]
        return "\n".join(lines)
