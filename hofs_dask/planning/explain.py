"""Estimate the cost of a run before it starts: chunks, reductions, scans, bytes and memory."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from dask.utils import format_bytes

from hofs_dask.encoding.stages import source_rows
from hofs_dask.engine.budget import Estimate, check, estimate, room
from hofs_dask.engine.chunking import choose_layout
from hofs_dask.engine.cluster import RESIDENT, Worker, current_workers
from hofs_dask.engine.counts import MARGINAL_COUNTS
from hofs_dask.engine.partition import Partition, read_bytes
from hofs_dask.engine.reduction import Request
from hofs_dask.engine.scanning import scans
from hofs_dask.engine.tuples import GROUP_COUNTS, TUPLE_TABLES, TUPLES
from hofs_dask.io.places import Place
from hofs_dask.methods.base import Method, ReductionBound
from hofs_dask.methods.interactions import planned_tuples
from hofs_dask.search.rounds import sizes_of
from hofs_dask.store.bins import Bins, count_bins
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.labels import N_QUANTILES, Labels
from hofs_dask.store.layout import Layout, layout_of

if TYPE_CHECKING:
    from hofs_dask.io.source import Source

#: Maximum number of characters in a line, and a space at which lines are not broken.
WIDTH, NO_BREAK = 80, "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Encoding:
    """The estimated cost of encoding a source.

    Attributes
    ----------
    n_read, n_written
        Bytes read from the source, in two reads, and bytes written to the store.
    held
        Bytes that the largest block of the source takes in memory.
    """

    n_read: int
    n_written: int
    held: int


@dataclass(frozen=True)
class Searching:
    """The estimated cost of a selection or a comparison.

    Attributes
    ----------
    reductions
        Maximum number of reductions, by name.
    n_scans
        Maximum number of scans; the reductions of several methods share scans.
    scan_bytes
        Bytes that one scan reads.
    memory
        Memory that the largest scan takes on the worker with the least free memory.
    n_workers, n_threads
        Number of workers, and total number of their threads.
    refusal
        Why the run would be refused, and what to do about it; empty if the run fits.
    """

    reductions: Mapping[str, int]
    n_scans: int
    scan_bytes: int
    memory: Estimate
    n_workers: int
    n_threads: int
    refusal: str = ""

    @property
    def kept(self) -> float:
        """The fraction of the bytes of a scan that workers keep in memory."""
        return min(self.memory.cache * max(self.n_workers, 1) / self.scan_bytes, 1.0)

    @property
    def n_read(self) -> int:
        """Maximum number of bytes read in all scans; bytes kept in memory are read once."""
        return int(self.scan_bytes * (1 + (self.n_scans - 1) * (1 - self.kept)))


@dataclass(frozen=True)
class Plan:
    """The estimated cost of a run. ``print`` shows it as a page of text.

    Attributes
    ----------
    title
        Methods, features, samples and classes of the run.
    layout
        Chunks of the code store, with the reason for each choice.
    encoding
        Cost of encoding; None if the code store already exists.
    searching
        Cost of the selection; None if the plan is for encoding only.
    assumed
        Assumptions of the plan, one sentence each.
    comparing
        How `interactions` compares tuples, one sentence each; empty for a selection.

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
    comparing: tuple[str, ...] = ()

    @property
    def memory(self) -> Estimate:
        """The memory that a selection needs on the worker with the least free memory."""
        if self.searching is None:
            raise ValueError(
                "this plan is for encoding only; give n_features for the memory of a selection"
            )
        return self.searching.memory

    def followed_by(self, selection: Plan) -> Plan:
        """Return the plan of this encoding followed by a selection."""
        assumed = (*self.assumed, *selection.assumed)
        return replace(selection, layout=self.layout, encoding=self.encoding, assumed=assumed)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        layout = self.layout
        head = (
            f"{layout.n_chunks:,} of {layout.chunks[0]:,} samples x {layout.chunks[1]:,} features, "
            f"{format_bytes(layout.n_bytes)} in total"
        )
        blocks = [("chunks", [head, *(f"- {reason}" for reason in layout.reasons)])]
        if self.encoding is not None:
            blocks.append(("encoding", _encoding_lines(self.encoding)))
        if self.comparing:
            blocks.append(("comparing", list(self.comparing)))
        if self.searching is not None:
            blocks += _searching_blocks(self.searching, layout)
        if self.assumed:
            blocks.append(("assumed", [f"- {text}" for text in self.assumed]))
        lines = textwrap.wrap(self.title, WIDTH)
        for name, texts in blocks:
            for number, text in enumerate(texts):
                lines += _indented(name if number == 0 else "", text)
        return "\n".join(lines)


def plan_encoding(
    source: Source, bins: Bins, target_kind: str, chunks: tuple[int, int] | None
) -> tuple[CodeStore, Plan]:
    """Return a description of the code store that an encoding would make, and its plan.

    The numbers of codes and classes are assumptions, because no data is read.
    """
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
        root=Place(""),
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
    n_read = 2 * sum(int(part.nbytes) for part in source.parts)
    encoding = Encoding(
        n_read=n_read,
        n_written=layout.n_bytes + source.n_samples,
        held=max(
            part.chunks[0][0] * max(part.chunks[1]) * part.dtype.itemsize for part in source.parts
        ),
    )
    assumed = (
        f"{n_codes} codes per feature (bins={bins!r}, and one for missing values) and "
        f"{n_classes} classes: both are known after the first read"
    )
    title = f"encode: {source.n_features:,} features, {source.n_samples:,} samples"
    return codes, Plan(title, layout, encoding, None, (assumed,))


def plan_search(
    codes: CodeStore,
    methods: Sequence[Method],
    n_features: int,
    n_resamples: int = 0,
    current: tuple[Worker, ...] | None = None,
) -> Plan:
    """Return the plan of a selection or a comparison of methods.

    Parameters
    ----------
    codes
        The code store; its path is empty if it is not encoded yet.
    methods
        The method objects.
    n_features
        Number of features to choose.
    n_resamples
        Number of bootstrap resamples for every method.
    current
        The workers; by default, those of the current Dask client.
    """
    layout = layout_of(codes)
    n_classes = len(codes.labels.classes)
    sizes = sizes_of(codes, n_features)
    bounds = [method.bound_reductions(sizes) for method in methods]
    largest = [method.largest_requests(sizes) for method in methods]
    # planning compiles no kernels, so workers may use less memory now than in the run
    current = current or current_workers()
    workers = tuple(replace(each, resident=max(each.resident, RESIDENT)) for each in current)
    # all searches run together; requests that do not fit one scan are split into several
    widest = [
        replace(request, resample=resample)
        for resample in (None, *range(n_resamples))
        for method_requests in largest
        for request in [max(method_requests, key=lambda each: _partial_bytes(each, layout))]
    ]
    cut = scans(codes, widest, workers)
    n_scans = len(cut) * (1 + max(bound.in_all for bound in bounds))  # 1 for the marginal counts
    refusal = ""
    found = [estimate(codes, scan, workers) for scan in cut]
    for request in (request for method_requests in largest for request in method_requests):
        found.append(estimate(codes, [request], workers))
        try:
            check(codes, request, found[-1], workers)
        except MemoryError as error:
            refusal = str(error)
    memory = max(found, key=lambda each: each.total)
    n_columns = max(len(request.columns) for scan in cut for request in scan)
    assumed: tuple[str, ...] = ()
    if workers != current:
        assumed = (f"libraries and compiled kernels take {format_bytes(RESIDENT)} per worker",)
    labels = ", ".join(method.label for method in methods)
    resampled = f", also in {n_resamples} resamples" * bool(n_resamples)
    title = (
        f"{labels}: {n_features:,} of {codes.n_features:,} features{resampled}; "
        f"{codes.n_samples:,} samples, {n_classes} classes"
    )
    n_workers = len(workers) if workers[0].address else 0
    searching = Searching(
        reductions=_joined(bounds, 1 + n_resamples),
        n_scans=n_scans,
        scan_bytes=read_bytes(layout, n_columns),
        memory=memory,
        n_workers=n_workers,
        n_threads=sum(worker.n_threads for worker in workers),
        refusal=refusal,
    )
    return Plan(title, _explained(codes), None, searching, assumed)


def plan_interactions(
    codes: CodeStore,
    order: int,
    top: int,
    exclude: Sequence[int] = (),
    *,
    exhaustive: bool = False,
    current: tuple[Worker, ...] | None = None,
) -> Plan:
    """Return the plan of a comparison of all tuples; the parameters are those of `interactions`."""
    layout = layout_of(codes)
    work = planned_tuples(sizes_of(codes, 1), order, top, exclude, exhaustive=exhaustive)
    current = current or current_workers()
    workers = tuple(replace(each, resident=max(each.resident, RESIDENT)) for each in current)
    panels = [(len(heads), number) for number, (_, heads) in enumerate(work.panels())]
    n_panels, (_, largest) = len(panels), max(panels)
    widest = work.request(work.start(), *next(islice(work.panels(), largest, None)))
    memory, refusal = estimate(codes, [widest], workers), ""
    try:
        check(codes, widest, memory, workers)
    except MemoryError as error:
        refusal = str(error)
    screened = work.recount
    reductions = {MARGINAL_COUNTS.name: 1, TUPLES.name: n_panels}
    if screened:
        reductions |= {GROUP_COUNTS.name: 1, TUPLE_TABLES.name: work.most_batches}
    n_workers = len(workers) if workers[0].address else 0
    searching = Searching(
        reductions=reductions,
        n_scans=sum(reductions.values()),
        scan_bytes=read_bytes(layout, len(widest.columns)),
        memory=memory,
        n_workers=n_workers,
        n_threads=sum(worker.n_threads for worker in workers),
        refusal=refusal,
    )
    word = {2: "pair", 3: "triple"}[order]
    n_drawn = work.n_drawn
    drawn = f"{n_drawn:,} of " if screened else ""
    comparing = [
        f"{_number(work.n_tuples, word)} on {drawn}{codes.n_samples:,} samples, with at most "
        f"{work.grouped.n_groups} codes per feature: {work.n_tuples * n_drawn:.2g} sample-{word}s"
    ]
    if screened:
        comparing += [
            f"the best {work.n_kept:,} are counted again on all samples",
            f"a {word} with a synergy of about {work.expected_smallest:.2g} nats is found with "
            "probability 1 - 1e-6 (the result states the exact number); exhaustive compares all "
            f"{word}s on all samples",
        ]
    assumed = ["all features that are not excluded can be used"]
    if workers != current:
        assumed.append(f"libraries and compiled kernels take {format_bytes(RESIDENT)} per worker")
    title = (
        f"{word}s of {codes.n_features - len(set(exclude)):,} features; {codes.n_samples:,} "
        f"samples, {len(codes.labels.classes)} classes"
    )
    return Plan(title, _explained(codes), None, searching, tuple(assumed), tuple(comparing))


def _explained(codes: CodeStore) -> Layout:
    """Return the layout of a store, with reasons if `choose_layout` would choose it now."""
    free = room()
    chosen, given = (
        choose_layout(
            codes.n_samples,
            codes.n_features,
            int(codes.n_codes.max()),
            n_classes=len(codes.labels.classes),
            room=free,
            chunks=chunks,
        )
        for chunks in (None, codes.chunks)
    )
    return chosen if chosen.chunks == codes.chunks else given


def _joined(bounds: Sequence[ReductionBound], n_runs: int) -> dict[str, int]:
    """Return the maximum number of reductions by name, if every method runs ``n_runs`` times."""
    found: Counter[str] = Counter()
    for bound in bounds:
        found.update({name: n_runs * n for name, n in bound.by_name.items()})
    found[MARGINAL_COUNTS.name] = n_runs  # shared by all methods
    return dict(found)


def _partial_bytes(request: Request, layout: Layout) -> int:
    return request.reduction.nbytes(request.context, layout.chunks[1])


# Text of a plan


def _encoding_lines(encoding: Encoding) -> list[str]:
    return [
        f"reads {format_bytes(encoding.n_read)} in two reads, writes "
        f"{format_bytes(encoding.n_written)}",
        f"a task holds {format_bytes(encoding.held)} of the source and its codes",
    ]


def _searching_blocks(searching: Searching, layout: Layout) -> list[tuple[str, list[str]]]:
    n_workers, n_threads = searching.n_workers, searching.n_threads
    memory = searching.memory
    where = _number(n_workers, "worker") if n_workers else "this process"
    shown = ("resident", "tasks", "partials", "context", "cache")
    verdict = f"it would be refused: {searching.refusal}" if searching.refusal else "it fits"
    return [
        (
            "reductions",
            ["at most " + _listed(f"{n:,} {name}" for name, n in searching.reductions.items())],
        ),
        (
            "scans",
            [
                f"at most {searching.n_scans:,} over the samples, "
                f"{_number(Partition(layout).n_tasks(n_threads), 'task')} each, on "
                f"{_number(n_threads, 'thread')} of {where}",
                f"{format_bytes(searching.scan_bytes)} per scan, of which {searching.kept:.0%} "
                f"stays in memory: {format_bytes(searching.n_read)} read in total",
            ],
        ),
        (
            "memory",
            [
                f"{format_bytes(memory.total)} of the {format_bytes(memory.limit)} of the worker "
                "with the least free memory",
                _listed(f"{name} {format_bytes(getattr(memory, name))}" for name in shown),
                verdict,
            ],
        ),
    ]


def _indented(name: str, text: str) -> list[str]:
    """Return a text as indented lines of at most `WIDTH` characters; ``name`` starts the first."""
    first, later = f"  {name:<11}", " " * 13 + "  " * text.startswith("- ")
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later)
    return [line.replace(NO_BREAK, " ") for line in lines]


def _listed(items: Iterable[str]) -> str:
    """Return items joined by commas; lines will not be broken within an item."""
    return ", ".join(item.replace(" ", NO_BREAK) for item in items)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
