"""A method at work on a little made-up data: its reductions, and what they cost."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from hofs_dask.engine.cluster import on_a_worker
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.reduction import Partial, Request
from hofs_dask.methods.base import Method
from hofs_dask.methods.problem import Problem
from hofs_dask.planning.trial import N_FEATURES, try_reduction
from hofs_dask.search.rounds import next_pick

#: Samples that a method rehearses on, the fewest first: the more, the less does it count what a
#: reduction costs in any case. No more than there are, but for the first.
N_TRIED = (512, 8192, 65_536)
#: Seconds that the next number of samples may take; a slower method is judged by the last one.
PATIENCE = 0.3
#: Rounds that are rehearsed; the later ones are taken to be like the last of them.
N_ROUNDS = 3


@dataclass(frozen=True)
class Step:
    """A reduction of a rehearsal.

    Attributes
    ----------
    rank
        The round that asked for it, from 1; 0 for before the first.
    reduction
        Its name.
    n_columns
        The columns that it counted with.
    seconds
        Of a thread, a cell: the time that it computes, whatever else the machine does.
    """

    rank: int
    reduction: str
    n_columns: int
    seconds: float


@dataclass(frozen=True)
class Rehearsal:
    """What the first rounds of a method take.

    Attributes
    ----------
    steps
        The reductions, in order.
    driver
        Seconds of the driver a feature, one a round.
    """

    steps: tuple[Step, ...]
    driver: tuple[float, ...]


def rehearse(
    method: Method, n_rounds: int, n_samples: int, n_classes: int, n_codes: int, kind: str
) -> Rehearsal:
    """What a method asks for in its first rounds and what that costs on a current worker.

    Parameters
    ----------
    method
        A method object.
    n_rounds
        Features that are to be chosen.
    n_samples, n_classes, n_codes, kind
        Of the problem: samples with a label, classes of the target, codes of the widest feature,
        the kind of target. So many samples are copies of a few: a method that looks at some of many
        first does so here.

    Examples
    --------
    >>> from hofs_dask.methods.pairwise import JMI
    >>> found = rehearse(JMI(), 3, n_samples=1000, n_classes=2, n_codes=5, kind="class")
    >>> [(step.rank, step.reduction) for step in found.steps]
    [(0, 'marginal-counts'), (2, 'pair-terms'), (3, 'pair-terms')]
    """
    problem = (n_classes, n_codes, kind)
    found = _rehearse(N_TRIED[0], n_samples, method, n_rounds, *problem)
    for n_tried in N_TRIED[1:]:
        seconds = sum(step.seconds for step in found.steps)
        if n_tried <= n_samples and 2 * N_FEATURES * n_tried * seconds < PATIENCE:
            found = _rehearse(n_tried, n_samples, method, n_rounds, *problem)
    return found


def _rehearse(
    n_tried: int,
    n_samples: int,
    method: Method,
    n_rounds: int,
    n_classes: int,
    n_codes: int,
    kind: str,
) -> Rehearsal:
    # the driver drives as ever; a worker, which knows no method, does the reductions
    steps: list[Step] = []
    n_copies = -(-n_samples // n_tried)

    def run(request: Request, rank: int) -> Partial:
        total, seconds = on_a_worker(try_reduction, request, n_tried, n_copies, n_classes, n_codes)
        steps.append(Step(rank, request.reduction.name, len(request.columns), seconds))
        return total

    total = run(Request(MARGINAL_COUNTS, MarginalContext(n_classes, n_codes)), 0)
    problem = Problem(
        n_codes=np.full(N_FEATURES, n_codes),
        missing_code=np.full(N_FEATURES, -1),
        nominal=np.zeros(N_FEATURES, dtype=bool),
        values=np.tile(np.arange(float(n_codes)), (N_FEATURES, 1)),
        counts=total["counts"],
        label_kind=kind,
        label_values=np.arange(float(n_classes)),
    )
    work = method.search(problem)
    state, candidates, driver = work.start(), problem.candidates.copy(), []
    for rank in range(1, min(n_rounds, N_ROUNDS) + 1):
        asking = next_pick(method, work, state, candidates, None, -math.inf)  # no new epoch
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
