"""A method at work on a little made-up data: which passes it asks for, and what they cost here."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from hofs_dask.config import Method
from hofs_dask.engine.cluster import on_a_worker
from hofs_dask.engine.statistic import Context, Partial, Pass
from hofs_dask.engine.statistics import MARGINAL_COUNTS
from hofs_dask.engine.trial import N_FEATURES, try_pass
from hofs_dask.methods.problem import Problem
from hofs_dask.rounds import next_pick, search_of

#: Samples that a method rehearses on, and the fewer that are tried first.
N_SAMPLES, FEW_SAMPLES = 8192, 512
#: Seconds that all samples may take; a method that is slower is judged by the few.
PATIENCE = 0.2
#: Rounds that are rehearsed; the later ones are taken to be like the last of them.
N_ROUNDS = 3


@dataclass(frozen=True)
class Step:
    """A pass of a rehearsal.

    Attributes
    ----------
    rank
        The round that asked for it, from 1; 0 for before the first.
    statistic
        Its name.
    n_columns
        The columns that it counted with.
    seconds
        Of a thread, a cell: the time that it computes, whatever else the machine does.
    """

    rank: int
    statistic: str
    n_columns: int
    seconds: float


@dataclass(frozen=True)
class Rehearsal:
    """What the first rounds of a method take.

    Attributes
    ----------
    steps
        The passes, in order.
    driver
        Seconds of the driver a feature, one a round.
    """

    steps: tuple[Step, ...]
    driver: tuple[float, ...]


def rehearse(method: Method, n_rounds: int, n_classes: int, n_codes: int, kind: str) -> Rehearsal:
    """What a method asks for in its first rounds and what that costs on a current worker.

    Parameters
    ----------
    method
        A method object.
    n_rounds
        Features that are to be chosen.
    n_classes, n_codes, kind
        Of the problem: classes of the target, codes of the widest feature, the kind of target.

    Examples
    --------
    >>> from hofs_dask.config import JMI
    >>> found = rehearse(JMI(), 3, n_classes=2, n_codes=5, kind="class")
    >>> [(step.rank, step.statistic) for step in found.steps]
    [(0, 'marginal-counts'), (2, 'pair-terms'), (3, 'pair-terms')]
    """
    found = _rehearse(FEW_SAMPLES, method, n_rounds, n_classes, n_codes, kind)
    cells = N_FEATURES * N_SAMPLES
    if 2 * cells * sum(step.seconds for step in found.steps) < PATIENCE:
        found = _rehearse(N_SAMPLES, method, n_rounds, n_classes, n_codes, kind)
    return found


def _rehearse(
    n_samples: int, method: Method, n_rounds: int, n_classes: int, n_codes: int, kind: str
) -> Rehearsal:
    # the driver drives as ever; a worker, which knows no method, does the passes
    steps: list[Step] = []

    def run(request: Pass, rank: int) -> Partial:
        total, seconds = on_a_worker(try_pass, request, n_samples, n_classes, n_codes)
        steps.append(Step(rank, request.statistic.name, len(request.columns), seconds))
        return total

    total = run(Pass(MARGINAL_COUNTS, Context({"n_classes": n_classes, "n_codes": n_codes})), 0)
    problem = Problem(
        n_codes=np.full(N_FEATURES, n_codes),
        missing_code=np.full(N_FEATURES, -1),
        nominal=np.zeros(N_FEATURES, dtype=bool),
        values=np.tile(np.arange(float(n_codes)), (N_FEATURES, 1)),
        counts=total["counts"],
        label_kind=kind,
        label_values=np.arange(float(n_classes)),
    )
    work = search_of(method)(problem, method)
    state, candidates, driver = work.start(), problem.candidates.copy(), []
    for rank in range(1, min(n_rounds, N_ROUNDS) + 1):
        asking = next_pick(work, state, candidates, None, -math.inf)  # no new epoch
        sent: Any = None
        seconds = 0.0
        while True:
            start = time.thread_time()
            try:
                request = asking.send(sent)
            except StopIteration as stop:
                pick, state = stop.value
                break
            finally:
                seconds += time.thread_time() - start
            sent = run(request, rank)
        candidates[pick.index] = False
        driver.append(seconds / N_FEATURES)
    return Rehearsal(tuple(steps), tuple(driver))
