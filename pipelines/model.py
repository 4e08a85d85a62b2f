"""Cost model of a round: ``python -m pipelines.model bench.json``. See MODEL.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click
import numpy as np
from scipy.optimize import nnls

from hofs_dask.engine.budget import CACHE_SHARE, size_of
from hofs_dask.engine.chunking import choose_layout
from hofs_dask.engine.counts import MARGINAL_COUNTS, MOST_PRODUCTS, PAIR_TERMS, MarginalContext
from hofs_dask.engine.partition import FAN_IN, Partition
from hofs_dask.engine.reduction import N_FOLDS, N_PARTS, Context, Reduction, Request
from hofs_dask.engine.scanning import is_small
from hofs_dask.kernels.planes import n_bits
from hofs_dask.methods.base import Sizes
from hofs_dask.methods.criteria import JMI
from hofs_dask.methods.hofs import HOFS
from hofs_dask.store.layout import Layout

#: Results of a run of the benchmark, to which the model is fitted by default.
MEASURED = Path(__file__).with_name("results") / "bench.json"

#: A reduction that computes nothing, so that its scan only reads and decodes chunks.
READ_ONLY: Reduction[Context] = Reduction(
    "read-only", lambda _c, _n: {}, lambda _c, _b, _p: None, lambda _c, t: t
)

#: Assumptions about a cluster of single-thread workers, in addition to the fitted constants.
STORAGE = 100e6  # bytes per second and worker, from an object store
NETWORK = 1.25e9  # bytes per second of one machine
MEMORY = 4 * 2**30  # bytes per worker
#: Assumed fraction of the candidates of `joint` that remain after screening on the first samples.
STILL_IN = 0.15
#: Scans of a round of each method on large data, and the fraction of the cells used by each scan.
ROUNDS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "jmi": (("pair-terms", 1.0),),
    "joint": (
        ("pair-counts", 1.0),
        ("posterior-gains", 1 / 16),
        ("posterior-gains", 3 / 16 * STILL_IN),
        ("posterior-gains", 12 / 16 * STILL_IN),
    ),
}
#: Parts of the time of a round.
SPENT = ("scheduler", "workers", "storage", "driver", "network")
#: Number of picks before the predicted round.
N_KNOWN = 30


@dataclass(frozen=True)
class Store:
    """The sizes of a code store, which determine the cost of a scan."""

    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    chunk_samples: int
    chunk_features: int

    @property
    def layout(self) -> Layout:
        """Chunks and tiles of the store."""
        chunks = self.chunk_samples, min(self.chunk_features, self.n_features)
        return Layout(self.n_samples, self.n_features, chunks, n_bits(self.n_codes))


@dataclass(frozen=True)
class Scan:
    """Sizes and time of a scan, or of the work of the driver in a round."""

    reduction: str
    n_samples: int
    n_features: int
    n_codes: int
    n_classes: int
    n_columns: int
    chunk_samples: int
    chunk_features: int
    n_workers: int  # with one thread each
    n_cores: int  # shared by the workers
    kept: bool  # whether the chunks were in the workers' memory
    seconds: float
    share: float = 1.0  # fraction of the cells that the reduction used

    @property
    def store(self) -> Store:
        """The code store."""
        return Store(**{field.name: getattr(self, field.name) for field in fields(Store)})


@dataclass(frozen=True)
class Counts:
    """The numbers of tasks, chunks, cells and bytes of a scan.

    Attributes
    ----------
    tiles, groups, chunks
        Numbers of tiles of features, of groups of samples, and of chunks.
    plans, maps, combines, finishes, copies
        Numbers of keys of the graph by kind: one plan per tile unless it is small, one map task per
        tile and group, the combine tasks of the tree, one finish task per tile, and one copy task
        per group if several tiles need new columns.
    read
        Bytes from the store: codes, labels and the columns of the reduction.
    cells
        Codes that the kernel processes.
    of_columns
        Codes of the columns of the reduction, which every tile unpacks.
    products
        Number of sets of samples (bit masks) that are intersected per feature; 0 if the reduction
        counts sample by sample.
    partial
        Bytes of the partial of one map task.
    combined
        Bytes of all partials that the tree combines.
    context
        Bytes that the driver sends to the scheduler and the scheduler to the workers.
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
        """Number of keys of the graph."""
        return self.plans + self.maps + self.combines + self.finishes + self.copies

    @property
    def messages(self) -> int:
        """Number of messages between scheduler and workers: two per key."""
        return 2 * self.tasks


def request(reduction: str, store: Store, n_columns: int) -> Request:
    """Return a request for a reduction; its context has the right sizes, but no content."""
    sizes = Sizes(store.n_samples, store.n_features, store.n_classes, store.n_codes, n_columns)
    counting = MarginalContext(store.n_classes, store.n_codes)
    known = [
        Request(READ_ONLY, Context()),
        Request(MARGINAL_COUNTS, counting),
        *JMI().largest_requests(sizes),
        *HOFS().largest_requests(sizes),
    ]
    found = {each.reduction.name: each for each in known}
    return found[reduction]


def products(store: Store, reduction: str) -> int:
    """Return `Counts.products` of a reduction: how many sets it intersects per feature, or 0."""
    tables = {
        "marginal-counts": N_FOLDS * store.n_classes,
        "pair-terms": (store.n_codes - 1) * store.n_classes,
        "pair-counts": N_FOLDS * store.n_codes * store.n_classes,
    }
    found = tables.get(reduction, 0) * (store.n_codes - 1)
    return found if found <= MOST_PRODUCTS else 0


def count(store: Store, asked: Request, n_threads: int, new_columns: int = 0) -> Counts:
    """Return the counts of a scan that computes one reduction.

    Parameters
    ----------
    store
        The code store.
    asked
        The request for the reduction.
    n_threads
        Number of threads of all workers.
    new_columns
        Columns of the reduction that no earlier scan has copied, if there are several tiles.

    Examples
    --------
    >>> store = Store(10_000_000, 2_000, 8, 2, chunk_samples=8_192, chunk_features=1_024)
    >>> found = count(store, request("pair-terms", store, 1), n_threads=8, new_columns=1)
    >>> found.tiles, found.groups, found.maps, found.tasks
    (2, 36, 72, 136)
    """
    layout = store.layout
    tile, tiles = layout.chunks[1], len(layout.tiles)
    groups = len(Partition(layout).groups(n_threads))
    combines, level = 0, groups
    while level > FAN_IN:
        level = -(-level // FAN_IN)
        combines += level
    partial = asked.reduction.nbytes(asked.context, tile)
    n_columns = len(asked.columns)
    # terms are computed from counts on the worker; all other totals are sent unchanged
    terms = 8 * store.n_features * n_columns * (3 + store.n_classes)
    whole = asked.reduction.nbytes(asked.context, store.n_features)
    return Counts(
        tiles=tiles,
        groups=groups,
        chunks=layout.n_chunks,
        plans=sum(
            not is_small((asked.context.take(features),), groups) for features in layout.tiles
        ),
        maps=tiles * groups,
        combines=tiles * combines,
        finishes=tiles,
        copies=groups if tiles > 1 and new_columns else 0,
        read=layout.n_bytes + store.n_samples * tiles * (1 + n_columns * layout.bits / 8),
        cells=store.n_samples * store.n_features,
        of_columns=store.n_samples * n_columns * tiles,
        products=products(store, asked.reduction.name),
        partial=partial,
        combined=partial * tiles * (groups + combines),
        context=size_of(asked.context) + (tiles - 1) * size_of(asked.context.take(slice(0, 0))),
        returned=terms if asked.reduction is PAIR_TERMS else whole,
    )


def sent(found: Counts, reduction: str, share: float) -> float:
    """Return the bytes of the context that are sent in a scan.

    For `posterior-gains`, only the context of the remaining candidates is sent. Their fraction is
    not known, but ``share``, the fraction of the cells, is their fraction times the fraction of the
    samples. This is at least a sixteenth, so the candidates are at most 16 times ``share``.
    """
    left = min(1.0, N_PARTS * share) if reduction == "posterior-gains" else 1.0
    return left * found.context


def driver_parts(store: Store, method: str, n_columns: int) -> dict[str, float]:
    """Return how often the driver needs each constant in a round, outside of scans.

    Baselines have one term per pick and feature; `joint` fits pair tables, and rows on the picks.
    """
    tables = store.n_features * store.n_classes * store.n_codes**2
    return {
        "round": 1.0,
        "jmi on the driver": store.n_features * n_columns * float(method == "jmi"),
        "joint on the driver": tables * float(method == "joint"),
    }


def parts(
    found: Counts, reduction: str, n_classes: int, n_cores: int, share: float, *, kept: bool
) -> dict[str, float]:
    """Return how often a scan needs each constant.

    The predicted time of the scan is the sum of the constants, each multiplied by this number. The
    fraction of the cells, ``share``, matters only for `posterior-gains`; other reductions use all
    cells.
    """
    scored = share * found.cells
    posterior = reduction == "posterior-gains"
    counted = reduction not in ("posterior-gains", "read-only") and not found.products
    return {
        "scan": 1.0,
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
        "driver": sent(found, reduction, share) + found.returned,
    }


#: Unit of each constant in the tables, and the number of these units per second.
UNITS = {
    "scan": ("ms a scan", 1e3),
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


def parts_of(scan: Scan) -> dict[str, float]:
    """Return how often a timed scan needed each constant."""
    none = dict.fromkeys(UNITS, 0.0)
    method = scan.reduction.removesuffix(" on the driver")
    if method in ROUNDS:
        return none | driver_parts(scan.store, method, scan.n_columns)
    asked = request(scan.reduction, scan.store, scan.n_columns)
    found = count(scan.store, asked, scan.n_workers)
    needed = parts(found, scan.reduction, scan.n_classes, scan.n_cores, scan.share, kept=scan.kept)
    return none | needed


@dataclass(frozen=True)
class Fit:
    """The constants of the model, fitted to timed scans."""

    constants: Mapping[str, float]  # seconds
    scans: tuple[Scan, ...]  # the scans of the fit, see `fastest_scans`

    def predict(self, needed: Mapping[str, float]) -> float:
        """Return the predicted seconds of a scan."""
        return sum(self.constants[name] * often for name, often in needed.items())

    @property
    def errors(self) -> np.ndarray:
        """The logarithm of the ratio of predicted to measured time, for every scan."""
        told = [self.predict(parts_of(scan)) / scan.seconds for scan in self.scans]
        logs: np.ndarray = np.log(told)
        return logs


def fastest_scans(scans: Iterable[Scan]) -> tuple[Scan, ...]:
    """Return the fastest of all scans that differ only in time, because others were disturbed."""
    best: dict[Scan, float] = {}
    for scan in scans:
        key = replace(scan, seconds=0.0)
        best[key] = min(best.get(key, np.inf), scan.seconds)
    return tuple(replace(scan, seconds=seconds) for scan, seconds in best.items())


def fit(scans: Sequence[Scan]) -> Fit:
    """Return constants >= 0 fitted by least squares of relative errors over the fastest scans."""
    chosen = fastest_scans(scans)
    table = np.array([list(parts_of(scan).values()) for scan in chosen])
    seconds = np.array([scan.seconds for scan in chosen])
    relative = table / seconds[:, None]
    scale = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)  # constants differ by 1e9
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    return Fit(dict(zip(UNITS, (found / scale).tolist(), strict=True)), chosen)


def read_scans(path: Path) -> list[Scan]:
    """Return the timed scans of a run of the benchmark that the model supports."""
    known = {"read-only", "marginal-counts", *(f"{method} on the driver" for method in ROUNDS)}
    known.update(reduction for scans in ROUNDS.values() for reduction, _ in scans)
    found = [Scan(**scan) for scan in json.loads(path.read_text())["scans"]]
    return [scan for scan in found if scan.reduction in known]


def source_store(n_bytes: float, n_features: int) -> Store:
    """Return the store for a float32 source of this size, with the chunks that `encode` makes."""
    n_samples = int(n_bytes / 4 / n_features)
    return Store(n_samples, n_features, 32, 2, *choose_layout(n_samples, n_features, 32).chunks)


def predict_round(
    found: Fit, store: Store, method: str, n_workers: int, n_columns: int
) -> tuple[int, dict[str, float]]:
    """Return the number of tasks of a round on a cluster, and its seconds by part."""
    share = min(1.0, n_workers * CACHE_SHARE * MEMORY / store.layout.n_bytes)
    spent = dict.fromkeys(SPENT, 0.0)
    n_tasks = 0
    for reduction, computed in ROUNDS[method]:
        counts = count(store, request(reduction, store, n_columns), n_workers)
        n_tasks += counts.tasks
        needed = parts(counts, reduction, store.n_classes, n_workers, computed, kept=True)
        seconds = {name: found.constants[name] * often for name, often in needed.items()}
        spent["scheduler"] += seconds["task"]
        spent["driver"] += seconds["scan"] + seconds["driver"]
        beside = ("scan", "task", "read", "driver")
        spent["workers"] += sum(seconds[name] for name in needed if name not in beside)
        read = (1 - share) * counts.read
        spent["storage"] += max(
            read / (STORAGE * n_workers), read * found.constants["read"] / n_workers
        )
        # workers get the context from each other; partials are sent along the tree
        context = sent(counts, reduction, computed)
        spent["network"] += context * np.ceil(np.log2(n_workers)) / NETWORK
        spent["network"] += counts.combined / (n_workers * NETWORK)
    for name in (f"{method} on the driver", "round"):
        spent["driver"] += found.constants[name] * driver_parts(store, method, n_columns)[name]
    return n_tasks, spent


def tables(found: Fit) -> Iterator[str]:
    """Yield the constants, the errors of the fit and the predictions as lines of Markdown."""
    yield from _table(
        ("constant", "value", "unit"),
        (
            (name, f"{factor * found.constants[name]:.3g}", unit)
            for name, (unit, factor) in UNITS.items()
        ),
    )
    errors = np.exp(found.errors)
    rows: list[tuple[str, ...]] = []
    for reduction in dict.fromkeys(scan.reduction for scan in found.scans):
        own = errors[[scan.reduction == reduction for scan in found.scans]]
        low, middle, high = np.quantile(own, [0.1, 0.5, 0.9])
        rows.append((reduction, str(len(own)), f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}"))
    yield from _table(("predicted / measured", "kinds", "10 %", "median", "90 %"), rows)
    thin = [scan for scan in found.scans if scan.reduction == "read-only"]
    yield from _table(
        ("workers on one machine", "tasks", "chunks", "measured s", "predicted s"),
        (
            (
                str(scan.n_workers),
                f"{counts.tasks}",
                f"{counts.chunks}",
                f"{scan.seconds:.3g}",
                f"{found.predict(parts_of(scan)):.3g}",
            )
            for scan in thin
            for counts in (count(scan.store, request("read-only", scan.store, 0), scan.n_workers),)
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
    """Fit the model to a run of the benchmark, and print predictions for larger data."""
    (about,) = json.loads(measured.read_text())["machine"]
    print(f"{about['date']}, {about['cpu']}, {about['cores']} cores\n")
    print("\n".join(tables(fit(read_scans(measured)))))


if __name__ == "__main__":
    main()
