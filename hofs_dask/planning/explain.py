"""What a run will do, before anything of it runs: layout, reductions, bytes, memory and time."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from dask.delayed import delayed
from dask.utils import format_bytes

from hofs_dask.encoding.encode import source_rows
from hofs_dask.engine.budget import Estimate, check, estimate, room
from hofs_dask.engine.chunking import choose_layout
from hofs_dask.engine.cluster import current_workers, memory_limits, on_a_worker
from hofs_dask.engine.counts import MARGINAL_COUNTS, PAIR_TERMS
from hofs_dask.engine.partition import Partition
from hofs_dask.engine.reduction import Request
from hofs_dask.engine.scanning import scans
from hofs_dask.methods.base import Method
from hofs_dask.planning.rehearsal import Rehearsal, rehearse
from hofs_dask.planning.trial import N_FEATURES, try_encoding, try_reading
from hofs_dask.scheduling.compute import compute
from hofs_dask.search.events import duration
from hofs_dask.search.rounds import largest_requests
from hofs_dask.store.bins import Bins, count_bins
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.labels import N_QUANTILES, Labels
from hofs_dask.store.layout import Layout, layout_of

if TYPE_CHECKING:
    from hofs_dask.io.source import Source

#: Bytes a second of a source that nobody has read yet, a worker: a plain disk or network.
SOURCE_RATE = 200e6
#: Codes are read at this many bytes a second where there is no store yet to try.
STORE_RATE = 1e9
#: Empty tasks that the time of a task is taken from.
N_EMPTY = 32
#: Columns of a terminal, and a blank that no line ends at.
WIDTH, NO_BREAK = 80, "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Encoding:
    """What making the code store takes.

    Attributes
    ----------
    n_read, n_written
        Bytes: the source is read twice.
    held
        Bytes of the largest block of the source, as a task holds it.
    seconds
        About.
    """

    n_read: int
    n_written: int
    held: int
    seconds: float


@dataclass(frozen=True)
class Reductions:
    """The reductions of one reduction.

    Attributes
    ----------
    reduction
        Its name.
    a_round
        Reductions of one of the later rounds.
    n_reductions
        In all.
    n_cells
        Cells that they go over, in all.
    seconds
        Of a thread, in all.
    """

    reduction: str
    a_round: int
    n_reductions: int
    n_cells: int
    seconds: float


@dataclass(frozen=True)
class Searching:
    """What a selection or a comparison takes.

    Attributes
    ----------
    reductions
        By reduction.
    n_scans
        Times that the samples are gone over; reductions of several methods share them.
    scan_bytes, n_read
        Bytes of one scan, and those that are read in all: what workers keep is read once.
    memory
        Of the worker that is pressed most, in its largest scan.
    n_workers, n_threads
        Who does it; all threads of all workers.
    parts
        Seconds of counting, reading, tasks and the driver, about.
    refusal
        Why it would be refused and what to do, empty where it fits.
    """

    reductions: tuple[Reductions, ...]
    n_scans: int
    scan_bytes: int
    n_read: int
    memory: Estimate
    n_workers: int
    n_threads: int
    parts: Mapping[str, float]
    refusal: str = ""


@dataclass(frozen=True)
class Plan:
    """What a run will do; reads as a page.

    Attributes
    ----------
    title
        What is asked for.
    layout
        How the codes are cut up, with reasons.
    encoding
        None where the code store is there.
    searching
        None where nothing is selected.
    assumed
        What had to be assumed, a sentence each.

    Examples
    --------
    >>> import tempfile
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = hd.encode(x, x[:, 0] > 0, folder + "/codes.zarr")
    ...     plan = hd.estimate(codes, n_features=3, method="jmi")
    >>> print(str(plan).splitlines()[0])
    jmi: 3 of 5 features; 1,000 samples, 2 classes
    """

    title: str
    layout: Layout
    encoding: Encoding | None
    searching: Searching | None
    assumed: tuple[str, ...] = ()

    @property
    def memory(self) -> Estimate:
        """The memory of the worker that a selection presses most."""
        if self.searching is None:
            raise ValueError(
                "this plan is of encoding alone; give n_features for the memory of a selection"
            )
        return self.searching.memory

    @property
    def seconds(self) -> float:
        """The time of all of it, about."""
        encoding = self.encoding.seconds if self.encoding else 0.0
        return encoding + (sum(self.searching.parts.values()) if self.searching else 0.0)

    def followed_by(self, selection: Plan) -> Plan:
        """The plan of this encoding and of a selection after it."""
        return replace(self, title=selection.title, searching=selection.searching)

    def __str__(self) -> str:
        layout = self.layout
        head = (
            f"{layout.n_chunks:,} of {layout.chunks[0]:,} samples x {layout.chunks[1]:,} features, "
            f"{format_bytes(layout.n_bytes)} in all"
        )
        blocks = [("chunks", [head, *(f"- {reason}" for reason in layout.reasons)])]
        if self.encoding is not None:
            blocks.append(("encoding", _encoding_lines(self.encoding)))
        if self.searching is not None:
            blocks += _searching_blocks(self.searching, layout)
        blocks.append(("time", self._time_lines()))
        if self.assumed:
            blocks.append(("assumed", [f"- {text}" for text in self.assumed]))
        lines = textwrap.wrap(self.title, WIDTH)
        for name, texts in blocks:
            for number, text in enumerate(texts):
                lines += _indented(name if number == 0 else "", text)
        return "\n".join(lines)

    def _time_lines(self) -> list[str]:
        parts = dict(self.searching.parts) if self.searching else {}
        if self.encoding is not None:
            parts = {"encoding": self.encoding.seconds, **parts}
        shown = _listed(f"{name} {_time(seconds)}" for name, seconds in parts.items())
        lines = [f"about {_time(self.seconds)}: {shown}"]
        if self.searching is not None:
            lines.append("and 10 to 30 s more where the workers have not compiled yet")
            n_threads, n_workers = self.searching.n_threads, self.searching.n_workers
            where = "this process" if not n_workers else _number(n_workers, "worker")
            lines.append(
                f"on {_number(n_threads, 'thread')} of {where}, which rehearsed it on made-up data"
            )
        return lines


def plan_encoding(
    source: Source, bins: Bins, target_kind: str, chunks: tuple[int, int] | None
) -> tuple[CodeStore, Plan]:
    """The store that encoding would make, as far as it is known before the first read, and how."""
    continuous = target_kind == "continuous" or (
        target_kind == "auto" and source.target_type == "number"
    )
    n_classes = N_QUANTILES if continuous else 2
    n_codes = count_bins(bins, source.n_samples, n_classes) + 1  # one for missing values
    layout = choose_layout(
        source.n_samples,
        source.n_features,
        n_codes,
        n_classes=n_classes,
        source_rows=source_rows(source),
        room=room(),
        chunks=chunks,
    )
    codes = CodeStore(
        path="",
        folder="",
        identity="",
        fingerprint=None,
        names=source.names,
        n_samples=source.n_samples,
        n_codes=np.full(source.n_features, n_codes, np.int16),
        missing_code=np.full(source.n_features, n_codes - 1, np.int16),
        nominal=source.nominal,
        values=np.zeros((source.n_features, n_codes)),
        chunks=layout.chunks,
        labels=Labels(
            name=source.target_name,
            key="",
            kind="continuous" if continuous else "class",
            classes=tuple(range(n_classes)),
            counts=np.zeros(n_classes, np.int64),
            values=np.arange(float(n_classes)),
            n_dropped=0,
        ),
    )
    threads = [n_threads for _, n_threads in memory_limits()] or [1]
    cells = source.n_samples * source.n_features
    n_read = 2 * sum(int(part.nbytes) for part in source.parts)
    seconds = on_a_worker(try_encoding, source.parts[0].dtype, source.n_samples, bins)
    encoding = Encoding(
        n_read=n_read,
        n_written=layout.n_bytes + source.n_samples,
        held=max(
            part.chunks[0][0] * max(part.chunks[1]) * part.dtype.itemsize for part in source.parts
        ),
        seconds=cells * seconds / sum(threads) + n_read / SOURCE_RATE / len(threads),
    )
    assumed = [
        f"{n_codes} codes a feature (bins={bins!r}, and one for missing values) and "
        f"{n_classes} classes: both are known after the first read",
        f"the source is read at {SOURCE_RATE / 1e6:.0f} MB/s a worker",
    ]
    title = f"encode: {source.n_features:,} features, {source.n_samples:,} samples"
    return codes, Plan(title, layout, encoding, None, tuple(assumed))


def plan_search(
    codes: CodeStore, methods: Sequence[Method], n_features: int, n_resamples: int = 0
) -> Plan:
    """What a selection by some methods takes of the current workers.

    Parameters
    ----------
    codes
        The store; one without a path is not there yet.
    methods
        The method objects.
    n_features
        How many features are to be chosen.
    n_resamples
        How many resamples every method also selects from.
    """
    layout = layout_of(codes)
    n_classes, n_codes = len(codes.labels.classes), max(int(codes.n_codes.max()), 2)
    largest = [largest_requests(codes, method, n_features) for method in methods]
    kind = codes.labels.kind
    rehearsals = [
        rehearse(method, n_features, codes.n_samples, n_classes, n_codes, kind)
        for method in methods
    ]
    read = on_a_worker(try_reading, codes) if codes.path else layout.chunk_bytes / STORE_RATE
    workers = current_workers([request for several in largest for request in several])
    counted = [
        _reductions(codes, method_requests, rehearsal, n_features)
        for method_requests, rehearsal in zip(largest, rehearsals, strict=True)
    ]
    n_runs = 1 + n_resamples
    # all searches go on at once; what does not fit one scan makes several
    widest = [
        replace(request, resample=resample)
        for resample in (None, *range(n_resamples))
        for method_requests in largest
        for request in [max(method_requests, key=lambda each: _partial_bytes(each, layout))]
    ]
    cut = scans(codes, widest)
    n_scans = len(cut) * max(
        sum(each.n_reductions for each in reductions) for reductions in counted
    )
    refusal = ""
    found = [estimate(codes, scan, workers) for scan in cut]
    for request in (request for method_requests in largest for request in method_requests):
        found.append(estimate(codes, [request], workers))
        try:
            check(codes, request, found[-1], workers)
        except MemoryError as error:
            refusal = str(error)
    memory = max(found, key=lambda each: each.total)
    n_threads = sum(worker.n_threads for worker in workers)
    n_columns = max(len(request.columns) for scan in cut for request in scan)
    scan_bytes = layout.n_bytes + codes.n_samples * (1 + n_columns * (len(layout.tiles) > 1))
    kept = min(memory.cache * len(workers) / scan_bytes, 1.0)
    n_read = int(scan_bytes * (1 + (n_scans - 1) * (1 - kept)))
    reductions = _joined(counted, n_runs)
    busy = min(n_threads, len(Partition(layout).groups(n_threads)) * len(layout.tiles))
    parts = {
        "counting": sum(each.seconds for each in reductions) / busy,
        "reading": n_read / layout.chunk_bytes * read / busy,
        "tasks": n_scans * Partition(layout).n_tasks(n_threads) * _task_seconds(),
        "driver": n_runs * sum(_driver(each, codes, n_features) for each in rehearsals),
    }
    labels = ", ".join(method.label for method in methods)
    resampled = f", and of {n_resamples} resamples" * bool(n_resamples)
    title = (
        f"{labels}: {n_features:,} of {codes.n_features:,} features{resampled}; "
        f"{codes.n_samples:,} samples, {n_classes} classes"
    )
    n_workers = len(workers) if workers[0].address else 0
    searching = Searching(
        reductions, n_scans, scan_bytes, n_read, memory, n_workers, n_threads, parts, refusal
    )
    return Plan(title, _explained(codes), None, searching)


def _explained(codes: CodeStore) -> Layout:
    """The layout that a store has, with the reasons if it is what would be chosen today."""
    chosen, given = (
        choose_layout(
            codes.n_samples,
            codes.n_features,
            int(codes.n_codes.max()),
            n_classes=len(codes.labels.classes),
            room=room(),
            chunks=chunks,
        )
        for chunks in (None, codes.chunks)
    )
    return chosen if chosen.chunks == codes.chunks else given


def _reductions(
    codes: CodeStore, largest: Sequence[Request], rehearsal: Rehearsal, n_rounds: int
) -> list[Reductions]:
    """The requests of a search by reduction; rounds after the rehearsed ones are like the last."""
    n_rehearsed, m = len(rehearsal.driver), codes.n_features
    n_cells = codes.n_samples * m
    found = []
    for name in dict.fromkeys(step.reduction for step in rehearsal.steps):
        steps = [step for step in rehearsal.steps if step.reduction == name]
        a_round = sum(step.rank == n_rehearsed for step in steps)
        n_reductions, cells, seconds = 0, 0, 0.0
        for step in steps:
            times = 1 + (n_rounds - n_rehearsed) * (step.rank == n_rehearsed)
            if name == PAIR_TERMS.name and step.rank == 1:
                # nothing is chosen yet: all pairs, each counted once, in panels of columns
                cells += step.n_columns * n_cells // N_FEATURES * (m + 1) // 2
                seconds += step.seconds * n_cells * (m + 1) / (N_FEATURES + 1)
                continue
            n_reductions += times
            cells += times * n_cells
            seconds += times * step.seconds * n_cells
        panels = [len(each.columns) for each in largest if each.reduction.name == name]
        if panels and panels[0] > 1 and name == PAIR_TERMS.name:
            n_reductions += -(-m // panels[0])
        found.append(Reductions(name, a_round, n_reductions, cells, seconds))
    return found


def _joined(counted: Sequence[Sequence[Reductions]], n_runs: int) -> tuple[Reductions, ...]:
    """The reductions of all methods by reduction, over so many runs each."""
    found: dict[str, Reductions] = {}
    for one in (each for reductions in counted for each in reductions):
        have = found.get(one.reduction, Reductions(one.reduction, 0, 0, 0, 0.0))
        # one count of all features serves every method
        if one.reduction == MARGINAL_COUNTS.name and have.n_reductions:
            continue
        found[one.reduction] = Reductions(
            one.reduction,
            have.a_round + n_runs * one.a_round,
            have.n_reductions + n_runs * one.n_reductions,
            have.n_cells + n_runs * one.n_cells,
            have.seconds + n_runs * one.seconds,
        )
    return tuple(found.values())


def _driver(rehearsal: Rehearsal, codes: CodeStore, n_rounds: int) -> float:
    """Seconds of the driver."""
    later = (n_rounds - len(rehearsal.driver)) * rehearsal.driver[-1]
    return codes.n_features * (sum(rehearsal.driver) + later)


def _partial_bytes(request: Request, layout: Layout) -> int:
    return request.reduction.nbytes(request.context, layout.chunks[1])


def _task_seconds() -> float:
    """What a task costs beside its work: tried on the current workers with some that do nothing."""
    took = []
    for _ in range(2):
        # a function of this module would load all of it into the workers
        empty = [delayed(int, pure=False)(number) for number in range(N_EMPTY)]
        start = time.perf_counter()
        compute(*empty)
        took.append(time.perf_counter() - start)
    return min(took) / N_EMPTY


# How it reads


def _encoding_lines(encoding: Encoding) -> list[str]:
    return [
        f"reads {format_bytes(encoding.n_read)} in two reads, writes "
        f"{format_bytes(encoding.n_written)}",
        f"a task holds {format_bytes(encoding.held)} of the source and its codes",
    ]


def _searching_blocks(searching: Searching, layout: Layout) -> list[tuple[str, list[str]]]:
    n_cells = sum(each.n_cells for each in searching.reductions)
    n_reductions = sum(each.n_reductions for each in searching.reductions)
    memory = searching.memory
    kept = min(memory.cache * max(searching.n_workers, 1) / searching.scan_bytes, 1.0)
    table = [f"{'':<18}{'a round':>8}{'in all':>8}{'cells':>10}{'ns a cell':>11}"]
    for each in searching.reductions:
        rate = 1e9 * each.seconds / max(each.n_cells, 1)
        table.append(
            f"{each.reduction:<18}{each.a_round:>8}{each.n_reductions:>8}{each.n_cells:>10.1e}"
            f"{rate:>11.1f}"
        )
    shown = ("resident", "tasks", "partials", "context", "cache")
    verdict = f"it would be refused: {searching.refusal}" if searching.refusal else "it fits"
    return [
        ("reductions", table),
        (
            "scans",
            [
                f"{searching.n_scans:,} over the samples for at most "
                f"{n_reductions:,} reduction{'s' * (n_reductions != 1)}, "
                f"{n_cells:.1e} cells; "
                f"{_number(Partition(layout).n_tasks(searching.n_threads), 'task')} a scan",
                f"{format_bytes(searching.scan_bytes)} a scan, of which {kept:.0%} stays in the "
                f"workers: {format_bytes(searching.n_read)} read in all",
            ],
        ),
        (
            "memory",
            [
                f"{format_bytes(memory.total)} of the {format_bytes(memory.limit)} of a worker",
                _listed(f"{name} {format_bytes(getattr(memory, name))}" for name in shown),
                verdict,
            ],
        ),
    ]


def _indented(name: str, text: str) -> list[str]:
    """Lines that fit a terminal, under a heading."""
    first, later = f"  {name:<9}", " " * 11 + "  " * text.startswith("- ")
    if text.startswith(" ") or "  " in text:  # a row of a table
        return [first + text]
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later)
    return [line.replace(NO_BREAK, " ") for line in lines]


def _listed(items: Iterable[str]) -> str:
    """Items in a row, none of which is broken at the end of a line."""
    return ", ".join(item.replace(" ", NO_BREAK) for item in items)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)


def _time(seconds: float) -> str:
    return duration(seconds).strip()
