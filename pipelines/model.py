"""The cost of a round on paper: ``python -m pipelines.model bench.json``. See MODEL.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from hofs_dask.config import HOFS, JMI
from hofs_dask.engine.passes import FAN_IN, MIN_TASKS, TASK_BYTES
from hofs_dask.engine.statistic import Context, Pass, Statistic
from hofs_dask.engine.statistics import MARGINAL_COUNTS, PAIR_TERMS
from hofs_dask.methods.joint import Joint
from hofs_dask.methods.pairwise import Pairwise
from hofs_dask.methods.problem import Sizes

#: The run that the constants are fitted to by default.
MEASURED = Path(__file__).with_name("results") / "bench.json"

#: A pass that reads and decodes and does nothing else.
READ_ONLY = Statistic("read-only", lambda _c, _n: {}, lambda _c, _b, _p: None, lambda _c, t: t)


@dataclass(frozen=True)
class Store:
    """A code store, as far as the cost of a walk depends on it."""

    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    chunk_samples: int
    chunk_features: int
    bits: float = 8.0  # that a cell takes


@dataclass(frozen=True)
class Walk:
    """One walk that was timed: all that its time depends on, and its time."""

    statistic: str
    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    n_columns: int
    chunk_samples: int
    chunk_features: int
    bits: float
    n_workers: int  # of one thread each
    n_cores: int  # that they share
    kept: bool  # whether the chunks were in the workers' memory
    seconds: float

    @property
    def store(self) -> Store:
        """What was walked over."""
        return Store(**{field.name: getattr(self, field.name) for field in fields(Store)})


@dataclass(frozen=True)
class Counts:
    """What a walk does, as numbers.

    Attributes
    ----------
    tiles, spans, chunks
        Cuts of the features, of the samples, and chunks in all.
    plans, maps, combines, finishes, copies
        Keys of the graph by kind: a plan and a finish a tile, a map task a tile and span, the tree
        between, and a copy a span of each new column that several tiles need.
    read
        Bytes from the store: codes, labels and the columns of the pass.
    cells
        Codes that the kernel touches.
    partial
        Bytes of the partial of one map task.
    combined
        Bytes of all partials that the tree adds up.
    context
        Bytes that the driver sends to the scheduler, and this to the workers.
    returned
        Bytes that the driver receives.
    """

    tiles: int
    spans: int
    chunks: int
    plans: int
    maps: int
    combines: int
    finishes: int
    copies: int
    read: float
    cells: int
    partial: int
    combined: int
    context: int
    returned: int

    @property
    def tasks(self) -> int:
        """Keys of the graph: what the scheduler has to do with."""
        return self.plans + self.maps + self.combines + self.finishes + self.copies

    @property
    def messages(self) -> int:
        """Messages between scheduler and workers: a task is sent, and its end is reported."""
        return 2 * self.tasks


def request(statistic: str, store: Store, n_columns: int) -> Pass:
    """A pass of a statistic, with a context of the right sizes and no content."""
    sizes = Sizes(store.n_features, store.n_classes, store.n_codes, n_columns)
    counting = Context({"n_classes": store.n_classes, "n_codes": store.n_codes})
    known = [
        Pass(READ_ONLY, Context({})),
        Pass(MARGINAL_COUNTS, counting),
        *Pairwise.largest_passes(sizes, JMI()),
        *Joint.largest_passes(sizes, HOFS()),
    ]
    found = {each.statistic.name: each for each in known}
    return found[statistic]


def count(store: Store, asked: Pass, new_columns: int = 0) -> Counts:
    """What a walk for one pass does.

    Parameters
    ----------
    store
        What is walked over.
    asked
        The pass.
    new_columns
        Columns of the pass that no earlier walk has copied, where there are several tiles.

    Examples
    --------
    >>> store = Store(10_000_000, 2_000, 8, 2, chunk_samples=8_192, chunk_features=1_024)
    >>> found = count(store, request("pair-terms", store, 1), new_columns=1)
    >>> found.tiles, found.spans, found.maps, found.tasks
    (2, 39, 78, 147)
    """
    tile = min(store.chunk_features, store.n_features)
    tiles = -(-store.n_features // tile)
    row_chunks = -(-store.n_samples // store.chunk_samples)
    n_tasks = min(row_chunks, max(MIN_TASKS, -(-store.n_samples * tile // TASK_BYTES)))
    spans = -(-row_chunks // -(-row_chunks // n_tasks))
    combines, level = 0, spans
    while level > FAN_IN:
        level = -(-level // FAN_IN)
        combines += level
    partial = asked.statistic.nbytes(asked.context, tile)
    n_columns = len(asked.columns)
    # terms are made of the counts where these are; all other totals travel as they are
    terms = 8 * store.n_features * n_columns * (3 + store.n_classes)
    whole = asked.statistic.nbytes(asked.context, store.n_features)
    return Counts(
        tiles=tiles,
        spans=spans,
        chunks=row_chunks * tiles,
        plans=tiles,
        maps=tiles * spans,
        combines=tiles * combines,
        finishes=tiles,
        copies=spans if tiles > 1 and new_columns else 0,
        read=store.n_samples * (store.n_features * store.bits / 8 + tiles * (1 + n_columns)),
        cells=store.n_samples * store.n_features,
        partial=partial,
        combined=partial * tiles * (spans + combines),
        context=_size(asked.context) + (tiles - 1) * _size(asked.context.shared),
        returned=terms if asked.statistic is PAIR_TERMS else whole,
    )


def parts(
    found: Counts, statistic: str, n_classes: int, n_cores: int, *, kept: bool
) -> dict[str, float]:
    """How often a walk pays each constant: its time is the sum over what each costs."""
    posterior = statistic == "posterior-gains"
    counted = statistic not in ("posterior-gains", "read-only")
    return {
        "walk": 1.0,
        "task": float(found.tasks),
        "chunk": found.chunks / n_cores,
        "read": 0.0 if kept else found.read / n_cores,
        "count": found.cells / n_cores if counted else 0.0,
        "posterior": found.cells / n_cores if posterior else 0.0,
        "posterior of a class": found.cells * n_classes / n_cores if posterior else 0.0,
        "combine": found.combined / n_cores,
        "driver": float(found.context + found.returned),
    }


#: What a constant is shown as: its unit, and how many of that make a second.
UNITS = {
    "walk": ("ms a walk", 1e3),
    "task": ("ms a task", 1e3),
    "chunk": ("ms a chunk and core", 1e3),
    "read": ("ns a byte and core", 1e9),
    "count": ("ns a cell and core", 1e9),
    "posterior": ("ns a cell and core", 1e9),
    "posterior of a class": ("ns a cell, class and core", 1e9),
    "combine": ("ns a byte and core", 1e9),
    "driver": ("ns a byte", 1e9),
}


def parts_of(walk: Walk) -> dict[str, float]:
    """How often a walk that was timed paid each constant."""
    found = count(walk.store, request(walk.statistic, walk.store, walk.n_columns))
    return parts(found, walk.statistic, walk.n_classes, walk.n_cores, kept=walk.kept)


@dataclass(frozen=True)
class Fit:
    """The constants that fit timed walks best."""

    constants: Mapping[str, float]  # seconds
    walks: tuple[Walk, ...]  # of equal ones the fastest

    def predict(self, paid: Mapping[str, float]) -> float:
        """The seconds of a walk."""
        return sum(self.constants[name] * often for name, often in paid.items())

    @property
    def errors(self) -> np.ndarray:
        """Of every walk, the logarithm of the prediction over the time that was measured."""
        told = [self.predict(parts_of(walk)) / walk.seconds for walk in self.walks]
        logs: np.ndarray = np.log(told)
        return logs


def fit(walks: Sequence[Walk]) -> Fit:
    """Constants >= 0 with the least squares of relative errors.

    Of walks that differ in nothing but their time the fastest counts: what slowed the others down
    was something else.
    """
    best: dict[Walk, float] = {}
    for walk in walks:
        key = replace(walk, seconds=0.0)
        best[key] = min(best.get(key, np.inf), walk.seconds)
    chosen = tuple(replace(walk, seconds=seconds) for walk, seconds in best.items())
    table = np.array([list(parts_of(walk).values()) for walk in chosen])
    seconds = np.array([walk.seconds for walk in chosen])
    relative = table / seconds[:, None]
    scale = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)  # constants differ by 1e9
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    return Fit(dict(zip(UNITS, (found / scale).tolist(), strict=True)), chosen)


def read_walks(path: Path) -> list[Walk]:
    """The walks of a run of the benchmark that the model knows the statistics of."""
    known = {"read-only", "marginal-counts", "pair-terms", "pair-counts", "posterior-gains"}
    found = [Walk(**walk) for walk in json.loads(path.read_text())["walks"]]
    return [walk for walk in found if walk.statistic in known]


def _size(value: object) -> int:
    """The bytes of the arrays in a context."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(_size(item) for item in value.values())
    if isinstance(value, Context):
        return _size(value.shared) + _size(value.per_feature)
    return 0
