"""The cost of a round on paper: ``python -m pipelines.model bench.json``. See MODEL.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click
import numpy as np
from scipy.optimize import nnls

from hofs_dask.engine.budget import CACHE_SHARE
from hofs_dask.engine.passes import is_small
from hofs_dask.engine.statistic import N_FOLDS, N_PARTS, Context, Pass, Statistic
from hofs_dask.engine.statistics import MARGINAL_COUNTS, MOST_PRODUCTS, PAIR_TERMS
from hofs_dask.kernels.planes import n_bits
from hofs_dask.methods.joint import Joint
from hofs_dask.methods.options import HOFS, JMI
from hofs_dask.methods.pairwise import Pairwise
from hofs_dask.methods.problem import Sizes
from hofs_dask.store.layout import FAN_IN, Layout, choose_layout

#: The run that the constants are fitted to by default.
MEASURED = Path(__file__).with_name("results") / "bench.json"

#: A pass that reads and decodes and does nothing else.
READ_ONLY = Statistic("read-only", lambda _c, _n: {}, lambda _c, _b, _p: None, lambda _c, t: t)

#: What is assumed of a cluster of single-thread workers, beside the constants of this machine.
STORAGE = 100e6  # bytes a second and worker, from an object store
NETWORK = 1.25e9  # bytes a second of one machine
MEMORY = 4 * 2**30  # bytes of a worker
#: The share of the candidates of `joint` that its first samples do not rule out.
STILL_IN = 0.15
#: Walks of a round of each method on much data, and the share of the cells that each computes with.
ROUNDS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "jmi": (("pair-terms", 1.0),),
    "joint": (
        ("pair-counts", 1.0),
        ("posterior-gains", 1 / 16),
        ("posterior-gains", 3 / 16 * STILL_IN),
        ("posterior-gains", 12 / 16 * STILL_IN),
    ),
}
#: What the time of a round is spent on.
SPENT = ("scheduler", "workers", "storage", "driver", "network")
#: Picks that are known in the round that is predicted.
N_KNOWN = 30


@dataclass(frozen=True)
class Store:
    """A code store, as far as the cost of a walk depends on it."""

    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    chunk_samples: int
    chunk_features: int

    @property
    def layout(self) -> Layout:
        """How it is cut up."""
        chunks = self.chunk_samples, min(self.chunk_features, self.n_features)
        return Layout(self.n_samples, self.n_features, chunks, n_bits(self.n_codes))


@dataclass(frozen=True)
class Walk:
    """One walk that was timed, or what a round did beside them: what it depends on, its time."""

    statistic: str
    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    n_columns: int
    chunk_samples: int
    chunk_features: int
    n_workers: int  # of one thread each
    n_cores: int  # that they share
    kept: bool  # whether the chunks were in the workers' memory
    seconds: float
    share: float = 1.0  # of the cells that were computed with

    @property
    def store(self) -> Store:
        """What was walked over."""
        return Store(**{field.name: getattr(self, field.name) for field in fields(Store)})


@dataclass(frozen=True)
class Counts:
    """What a walk does, as numbers.

    Attributes
    ----------
    tiles, groups, chunks
        Cuts of the features, of the samples into tasks, and chunks in all.
    plans, maps, combines, finishes, copies
        Keys of the graph by kind: a finish a tile and a plan where it is not small, a map task a
        tile and group, the tree between, and a copy a group of each new column that several tiles
        need.
    read
        Bytes from the store: codes, labels and the columns of the pass.
    cells
        Codes that the kernel touches.
    of_columns
        Codes of the columns of the pass, that every tile needs and unpacks.
    products
        Sets of samples that are compared for a feature; 0 where its cells are counted one by one.
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
    groups: int
    chunks: int
    plans: int
    maps: int
    combines: int
    finishes: int
    copies: int
    read: float
    cells: int
    of_columns: int
    products: int
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


def products(store: Store, statistic: str) -> int:
    """The sets of samples that a statistic compares for a feature, 0 where it counts cells."""
    tables = {
        "marginal-counts": N_FOLDS * store.n_classes,
        "pair-terms": (store.n_codes - 1) * store.n_classes,
        "pair-counts": N_FOLDS * store.n_codes * store.n_classes,
    }
    found = tables.get(statistic, 0) * (store.n_codes - 1)
    return found if found <= MOST_PRODUCTS else 0


def count(store: Store, asked: Pass, n_threads: int, new_columns: int = 0) -> Counts:
    """What a walk for one pass does.

    Parameters
    ----------
    store
        What is walked over.
    asked
        The pass.
    n_threads
        Of all workers.
    new_columns
        Columns of the pass that no earlier walk has copied, where there are several tiles.

    Examples
    --------
    >>> store = Store(10_000_000, 2_000, 8, 2, chunk_samples=8_192, chunk_features=1_024)
    >>> found = count(store, request("pair-terms", store, 1), n_threads=8, new_columns=1)
    >>> found.tiles, found.groups, found.maps, found.tasks
    (2, 36, 72, 136)
    """
    layout = store.layout
    tile, tiles = layout.chunks[1], len(layout.tiles)
    groups = len(layout.groups(n_threads))
    combines, level = 0, groups
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
        groups=groups,
        chunks=layout.n_chunks,
        plans=sum(
            not is_small((asked.context.tile(features),), groups) for features in layout.tiles
        ),
        maps=tiles * groups,
        combines=tiles * combines,
        finishes=tiles,
        copies=groups if tiles > 1 and new_columns else 0,
        read=layout.n_bytes + store.n_samples * tiles * (1 + n_columns * layout.bits / 8),
        cells=store.n_samples * store.n_features,
        of_columns=store.n_samples * n_columns * tiles,
        products=products(store, asked.statistic.name),
        partial=partial,
        combined=partial * tiles * (groups + combines),
        context=_size(asked.context) + (tiles - 1) * _size(asked.context.shared),
        returned=terms if asked.statistic is PAIR_TERMS else whole,
    )


def sent(found: Counts, statistic: str, share: float) -> float:
    """The bytes of a context that travel: of posteriors what their candidates need, or more.

    Some of the samples are a sixteenth of them at least, so that no more candidates are left than
    sixteen times the share of the cells.
    """
    left = min(1.0, N_PARTS * share) if statistic == "posterior-gains" else 1.0
    return left * found.context


def driver_parts(store: Store, method: str, n_columns: int) -> dict[str, float]:
    """How often a round pays each constant beside its walks: scores, fits, the choice.

    The rivals add a term a pick and feature; `joint` fits pair tables, and rows on the picks.
    """
    tables = store.n_features * store.n_classes * store.n_codes**2
    return {
        "round": 1.0,
        "jmi on the driver": store.n_features * n_columns * float(method == "jmi"),
        "joint on the driver": tables * float(method == "joint"),
    }


def parts(
    found: Counts, statistic: str, n_classes: int, n_cores: int, share: float, *, kept: bool
) -> dict[str, float]:
    """How often a walk pays each constant: its time is the sum over what each costs.

    The share of the cells matters to posteriors alone: others always take all.
    """
    scored = share * found.cells
    posterior = statistic == "posterior-gains"
    counted = statistic not in ("posterior-gains", "read-only") and not found.products
    return {
        "walk": 1.0,
        "task": float(found.tasks),
        "chunk": found.chunks / n_cores,
        "posteriors of a chunk": found.chunks / n_cores if posterior else 0.0,
        "read": 0.0 if kept else found.read / n_cores,
        "count": found.cells / n_cores if counted else 0.0,
        "compare": found.cells * found.products / n_cores,
        "posterior": scored / n_cores if posterior else 0.0,
        "posterior of a class": scored * n_classes / n_cores if posterior else 0.0,
        "columns": found.of_columns / n_cores,
        "combine": found.combined / n_cores,
        "driver": sent(found, statistic, share) + found.returned,
    }


#: What a constant is shown as: its unit, and how many of that make a second.
UNITS = {
    "walk": ("ms a walk", 1e3),
    "task": ("ms a task", 1e3),
    "chunk": ("ms a chunk and core", 1e3),
    "posteriors of a chunk": ("ms a chunk and core", 1e3),
    "read": ("ns a byte and core", 1e9),
    "count": ("ns a cell and core", 1e9),
    "compare": ("ns a cell, set and core", 1e9),
    "posterior": ("ns a cell and core", 1e9),
    "posterior of a class": ("ns a cell, class and core", 1e9),
    "columns": ("ns a cell of a column and core", 1e9),
    "combine": ("ns a byte and core", 1e9),
    "driver": ("ns a byte", 1e9),
    "round": ("ms a round", 1e3),
    "jmi on the driver": ("ns a feature and pick", 1e9),
    "joint on the driver": ("ns a cell of a table", 1e9),
}


def parts_of(walk: Walk) -> dict[str, float]:
    """How often a walk that was timed paid each constant."""
    none = dict.fromkeys(UNITS, 0.0)
    method = walk.statistic.removesuffix(" on the driver")
    if method in ROUNDS:
        return none | driver_parts(walk.store, method, walk.n_columns)
    asked = request(walk.statistic, walk.store, walk.n_columns)
    found = count(walk.store, asked, walk.n_workers)
    paid = parts(found, walk.statistic, walk.n_classes, walk.n_cores, walk.share, kept=walk.kept)
    return none | paid


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


def fastest_walks(walks: Iterable[Walk]) -> tuple[Walk, ...]:
    """Of walks that differ in nothing but their time the fastest: others were disturbed."""
    best: dict[Walk, float] = {}
    for walk in walks:
        key = replace(walk, seconds=0.0)
        best[key] = min(best.get(key, np.inf), walk.seconds)
    return tuple(replace(walk, seconds=seconds) for walk, seconds in best.items())


def fit(walks: Sequence[Walk]) -> Fit:
    """Constants >= 0 with the least squares of relative errors over the fastest walks."""
    chosen = fastest_walks(walks)
    table = np.array([list(parts_of(walk).values()) for walk in chosen])
    seconds = np.array([walk.seconds for walk in chosen])
    relative = table / seconds[:, None]
    scale = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)  # constants differ by 1e9
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    return Fit(dict(zip(UNITS, (found / scale).tolist(), strict=True)), chosen)


def read_walks(path: Path) -> list[Walk]:
    """What a run of the benchmark timed that the model knows about."""
    known = {"read-only", "marginal-counts", *(f"{method} on the driver" for method in ROUNDS)}
    known.update(statistic for walks in ROUNDS.values() for statistic, _ in walks)
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


def source_store(n_bytes: float, n_features: int) -> Store:
    """The store of float32 values of so many bytes, with the chunks that `encode` makes."""
    n_samples = int(n_bytes / 4 / n_features)
    return Store(n_samples, n_features, 32, 2, *choose_layout(n_samples, n_features, 32).chunks)


def predict_round(
    found: Fit, store: Store, method: str, n_workers: int, n_columns: int
) -> tuple[int, dict[str, float]]:
    """The tasks of a round on a cluster, and its seconds by what they are spent on."""
    share = min(1.0, n_workers * CACHE_SHARE * MEMORY / store.layout.n_bytes)
    spent = dict.fromkeys(SPENT, 0.0)
    n_tasks = 0
    for statistic, computed in ROUNDS[method]:
        counts = count(store, request(statistic, store, n_columns), n_workers)
        n_tasks += counts.tasks
        paid = parts(counts, statistic, store.n_classes, n_workers, computed, kept=True)
        seconds = {name: found.constants[name] * often for name, often in paid.items()}
        spent["scheduler"] += seconds["task"]
        spent["driver"] += seconds["walk"] + seconds["driver"]
        beside = ("walk", "task", "read", "driver")
        spent["workers"] += sum(seconds[name] for name in paid if name not in beside)
        read = (1 - share) * counts.read
        spent["storage"] += max(
            read / (STORAGE * n_workers), read * found.constants["read"] / n_workers
        )
        # every worker needs the context, from one that has it; partials meet in the tree
        context = sent(counts, statistic, computed)
        spent["network"] += context * np.ceil(np.log2(n_workers)) / NETWORK
        spent["network"] += counts.combined / (n_workers * NETWORK)
    for name in (f"{method} on the driver", "round"):
        spent["driver"] += found.constants[name] * driver_parts(store, method, n_columns)[name]
    return n_tasks, spent


def tables(found: Fit) -> Iterator[str]:
    """The constants, how well they fit and what they predict, as lines of Markdown."""
    yield from _table(
        ("constant", "value", "unit"),
        (
            (name, f"{factor * found.constants[name]:.3g}", unit)
            for name, (unit, factor) in UNITS.items()
        ),
    )
    errors = np.exp(found.errors)
    rows: list[tuple[str, ...]] = []
    for statistic in dict.fromkeys(walk.statistic for walk in found.walks):
        own = errors[[walk.statistic == statistic for walk in found.walks]]
        low, middle, high = np.quantile(own, [0.1, 0.5, 0.9])
        rows.append((statistic, str(len(own)), f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}"))
    yield from _table(("predicted / measured", "kinds", "10 %", "median", "90 %"), rows)
    thin = [walk for walk in found.walks if walk.statistic == "read-only"]
    yield from _table(
        ("workers on one machine", "tasks", "chunks", "measured s", "predicted s"),
        (
            (
                str(walk.n_workers),
                f"{counts.tasks}",
                f"{counts.chunks}",
                f"{walk.seconds:.3g}",
                f"{found.predict(parts_of(walk)):.3g}",
            )
            for walk in thin
            for counts in (count(walk.store, request("read-only", walk.store, 0), walk.n_workers),)
        ),
    )
    rows = []
    for text, n_bytes in (("1 TB", 1e12), ("1 PB", 1e15)):
        for n_features in (1_000, 20_000):
            for n_workers in (100, 1_000):
                for method in ROUNDS:
                    store = source_store(n_bytes, n_features)
                    n_tasks, spent = predict_round(found, store, method, n_workers, N_KNOWN)
                    rows.append(
                        (
                            f"{text}, {n_features} features",
                            f"{n_workers}",
                            method,
                            f"{n_tasks}",
                            *(f"{seconds:.3g}" for seconds in spent.values()),
                            f"{sum(spent.values()):.3g}",
                            max(spent, key=lambda name: spent[name]),
                        )
                    )
    head = ("source", "workers", "round of", "tasks", *SPENT, "sum, s", "limit")
    yield from _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


@click.command()
@click.argument(
    "measured", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=MEASURED
)
def main(measured: Path) -> None:
    """Fit the model to a run of the benchmark, and print what it says of larger data."""
    (about,) = json.loads(measured.read_text())["machine"]
    print(f"{about['date']}, {about['cpu']}, {about['cores']} cores\n")
    print("\n".join(tables(fit(read_walks(measured)))))


if __name__ == "__main__":
    main()
