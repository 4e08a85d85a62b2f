"""A method at work on a little made-up data: which passes it asks for, and what they cost here."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from hofs_dask.config import Method
from hofs_dask.data.bins import Bins, encode_block, make_tables, most_bins
from hofs_dask.data.codes import CodeStore, read_codes
from hofs_dask.data.layout import cuts, layout_of
from hofs_dask.data.summary import summarise
from hofs_dask.engine.statistic import Block, Context, Partial, Pass, frozen
from hofs_dask.engine.statistics import MARGINAL_COUNTS, N_FOLDS
from hofs_dask.kernels.hashing import fold_of
from hofs_dask.methods.problem import Problem
from hofs_dask.rounds import next_pick, search_of

#: The size of what a method rehearses on, and the fewer samples that are tried first.
N_FEATURES, N_SAMPLES, FEW_SAMPLES = 48, 8192, 512
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
    """What a method asks for in its first rounds and what that costs, on this machine.

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
    found = _rehearse(_made_up(FEW_SAMPLES, n_classes, n_codes), method, n_rounds, kind)
    cells = N_FEATURES * N_SAMPLES
    if 2 * cells * sum(step.seconds for step in found.steps) < PATIENCE:
        found = _rehearse(_made_up(N_SAMPLES, n_classes, n_codes), method, n_rounds, kind)
    return found


def read_seconds(codes: CodeStore) -> float:
    """Seconds of a thread to read and check a chunk of a store, as it is stored now."""
    layout = layout_of(codes)
    rows = cuts(slice(0, codes.n_samples), codes.chunks[0])
    took = []
    for number in sorted({0, len(rows) // 2, len(rows) - 1}):
        start = time.perf_counter()
        read_codes(codes.path, layout.tiles[0], rows[number], keep=False)
        took.append(time.perf_counter() - start)
    return min(took)


def encode_seconds(dtype: np.dtype[Any], n_samples: int, bins: Bins) -> float:
    """Seconds of a thread to summarise and to code a cell of this type."""
    rng = np.random.default_rng(0)
    values = 100.0 * rng.standard_normal((FEW_SAMPLES * 8, 8))
    block = values.astype(dtype if dtype.kind in "iuf" else np.float64)
    limit, nominal = most_bins(bins) + 1, np.zeros(8, dtype=bool)
    took = []
    for _ in range(2):
        start = time.thread_time()
        summary = summarise(block, 0, max(n_samples, len(block)), nominal, limit)
        middle = time.thread_time()
        features, _ = make_tables(summary, 0, most_bins(bins), most_bins(bins))
        later = time.thread_time()
        encode_block(block, features)
        took.append(middle - start + time.thread_time() - later)
    return min(took) / block.size


def _rehearse(block: Block, method: Method, n_rounds: int, kind: str) -> Rehearsal:
    n_classes, n_codes = int(block.labels.max()) + 1, int(block.codes.max()) + 1
    shared = {"n_classes": n_classes, "n_codes": n_codes}
    total, step = _timed(Pass(MARGINAL_COUNTS, Context(shared)), block, 0)
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
    state, candidates = work.start(), problem.candidates.copy()
    steps, driver = [step], []
    for rank in range(1, min(n_rounds, N_ROUNDS) + 1):
        pick, state, taken, seconds = _round(work, state, candidates, block, rank)
        candidates[pick] = False
        steps += taken
        driver.append(seconds / N_FEATURES)
    return Rehearsal(tuple(steps), tuple(driver))


def _round(
    work: Any, state: Any, candidates: np.ndarray, block: Block, rank: int
) -> tuple[int, Any, list[Step], float]:
    """The pick of one round and the state after it, its passes, and the seconds of the driver."""
    steps: list[Step] = []
    asking = next_pick(work, state, candidates, None, -math.inf)  # no new epoch
    total: Any = None
    driver = 0.0
    while True:
        start = time.thread_time()
        try:
            request = asking.send(total)
        except StopIteration as stop:
            pick, state = stop.value
            return pick.index, state, steps, driver + time.thread_time() - start
        driver += time.thread_time() - start
        total, step = _timed(request, block, rank)
        steps.append(step)


def _timed(request: Pass, block: Block, rank: int) -> tuple[Partial, Step]:
    """The total of a pass, and what it took."""
    statistic, context = request.statistic, frozen(request.context)
    columns = block.codes[list(request.columns)]
    own = frozen(Block(block.codes, columns, block.labels, block.folds))
    total = statistic.identity(context, N_FEATURES)
    statistic.chunk(context, own, total)
    # once more: the first may have compiled, and touched the memory of the partial
    again = {name: array.copy() for name, array in total.items()}
    start = time.thread_time()
    statistic.chunk(context, own, again)
    seconds = (time.thread_time() - start) / block.codes.size
    return statistic.finalize(context, total), Step(
        rank, statistic.name, len(request.columns), seconds
    )


def _made_up(n_samples: int, n_classes: int, n_codes: int) -> Block:
    """Samples of features that come in families of four and say a little about the label each."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_samples) % n_classes
    signal = 0.5 * (labels / (n_classes - 1) - 0.5)
    families = rng.standard_normal((N_FEATURES // 4, n_samples)) + signal
    values = np.repeat(families, 4, axis=0) + rng.standard_normal((N_FEATURES, n_samples))
    shares = ndtr(values / np.sqrt(2.0))
    shares[:, -1] = 1.0  # so that every feature has the last code
    codes = np.minimum(shares * n_codes, n_codes - 1).astype(np.uint8)
    return Block(codes, codes[:0], labels.astype(np.uint8), fold_of(0, n_samples, N_FOLDS))
