"""Events of an encoding and of a search, which listeners receive."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RoundStarted:
    """Event: a round of the search begins.

    Attributes
    ----------
    rank : int
        Rank of the feature that the round will choose, from 1.
    n_features : int
        Number of features to choose in all rounds.
    n_candidates : int
        Number of features that can still be chosen.
    method : str
        Name of the method, with the options that differ from the defaults.
    at_most : bool
        Whether the search may choose fewer than ``n_features``, as with ``n_features="auto"``.

    Examples
    --------
    >>> RoundStarted(rank=1, n_features=30, n_candidates=500).rank
    1
    """

    rank: int
    n_features: int
    n_candidates: int
    method: str = "hofs"
    at_most: bool = False


@dataclass(frozen=True)
class EncodeStarted:
    """Event: a read of the source begins. Encoding reads the source twice.

    Attributes
    ----------
    stage : {"encode-read", "encode-write"}
        The first read, which finds bins and classes, or the second read, which writes codes. The
        names of the Dask tasks start with this text.
    n_tasks : int
        Number of tasks: one per chunk of the source (first read) or of the code store (second
        read).
    n_bytes : int
        Bytes of the source as arrays in memory; 0 if unknown, as for strings.

    Examples
    --------
    >>> EncodeStarted("encode-read", n_tasks=40, n_bytes=800).n_tasks
    40
    """

    stage: str
    n_tasks: int
    n_bytes: int


@dataclass(frozen=True)
class EncodeEnded:
    """Event: a read of the source has ended.

    Attributes
    ----------
    stage, n_tasks, n_bytes
        See `EncodeStarted`.
    seconds : float
        Duration of the read.

    Examples
    --------
    >>> ended = EncodeEnded("encode-read", n_tasks=40, n_bytes=800, seconds=2.0)
    >>> ended.n_bytes / ended.seconds
    400.0
    """

    stage: str
    n_tasks: int
    n_bytes: int
    seconds: float


@dataclass(frozen=True)
class Advanced:
    """Event: tasks of the current scan, or of the current read of the source, have ended.

    The event is sent at the start with ``n_ended=0``, and then at most a few times per second.
    Short scans and reads may send it only once or not at all.

    Attributes
    ----------
    n_ended : int
        Number of tasks that have ended. It decreases if results are lost with a worker.
    n_tasks : int
        Number of tasks that read chunks.

    Examples
    --------
    >>> advanced = Advanced(n_ended=10, n_tasks=40)
    >>> advanced.n_ended / advanced.n_tasks
    0.25
    """

    n_ended: int
    n_tasks: int


@dataclass(frozen=True)
class CompileStarted:
    """Event: the compilation of kernels begins, before a scan or an encoding.

    Compiled kernels are kept on disk, so each one is compiled once per type of machine.

    Attributes
    ----------
    kernels : tuple of str
        Names of the kernels to compile.

    Examples
    --------
    >>> CompileStarted(("add_counts", "pair_terms")).kernels
    ('add_counts', 'pair_terms')
    """

    kernels: tuple[str, ...]


@dataclass(frozen=True)
class ScanStarted:
    """Event: a scan over all samples begins.

    Attributes
    ----------
    rank : int
        Rank of the feature that the round of this scan will choose, from 1. If several searches
        share the scan, it is the lowest of these ranks. It is 0 for scans that belong to no round:
        the first scan of a run, which counts the codes of every feature, and all scans of
        `hofs_dask.interactions` and `hofs_dask.information_matrix`.
    reduction : str
        Names of the reductions, as in the names of the Dask tasks, joined with ``+``. A number
        follows a reduction that is computed several times, such as ``pair-terms x2``.
    n_reductions : int
        Number of reductions.

    Examples
    --------
    >>> ScanStarted(2, reduction="pair-terms x2 + posterior-gains", n_reductions=3).n_reductions
    3
    """

    rank: int
    reduction: str
    n_reductions: int = 1


@dataclass(frozen=True)
class ScanEnded:
    """Event: a scan over all samples has ended.

    Attributes
    ----------
    rank : int
        Rank of the feature that the round of this scan will choose, from 1. If several searches
        share the scan, it is the lowest of these ranks. It is 0 for scans that belong to no round:
        the first scan of a run, which counts the codes of every feature, and all scans of
        `hofs_dask.interactions` and `hofs_dask.information_matrix`.
    reduction : str
        Names of the reductions, as in the names of the Dask tasks, joined with ``+``. A number
        follows a reduction that is computed several times, such as ``pair-terms x2``.
    n_reductions : int
        Number of reductions.
    n_bytes : int
        Bytes of the store that the scan used, including chunks that workers had in memory: the
        codes of all features and, once for every tile (the features of one chunk), the labels and
        the columns that the reductions need from other tiles.
    n_cells : int
        Number of samples times features times reductions.
    seconds : float
        Duration of the scan.

    Examples
    --------
    >>> done = ScanEnded(2, "pair-counts", 1, n_bytes=720, n_cells=700, seconds=0.5)
    >>> done.n_cells / done.seconds
    1400.0
    """

    rank: int
    reduction: str
    n_reductions: int
    n_bytes: int
    n_cells: int
    seconds: float


@dataclass(frozen=True)
class PanelsAdvanced:
    """Event: progress of `hofs_dask.interactions`.

    `hofs_dask.interactions` compares tuples (pairs or triples of features) in batches called
    panels. The event is sent before the first panel, with ``n_ended=0``, and after each panel has
    been compared and saved in the checkpoint, if there is one.

    Attributes
    ----------
    n_ended, n_panels : int
        Number of panels that were compared, and number of all panels. Each panel takes one scan.
    n_tuples : int
        Number of tuples of all panels.
    n_drawn, n_samples : int
        Number of samples on which tuples are compared, and number of all samples. If
        ``n_drawn`` is smaller, the samples were chosen by a hash of their positions.

    Examples
    --------
    >>> PanelsAdvanced(0, n_panels=4, n_tuples=4950, n_drawn=2000, n_samples=2000).n_panels
    4
    """

    n_ended: int
    n_panels: int
    n_tuples: int
    n_drawn: int
    n_samples: int


@dataclass(frozen=True)
class RoundEnded:
    """Event: a round has chosen a feature and saved the checkpoint, if there is one.

    Attributes
    ----------
    rank : int
        Rank of the chosen feature, from 1.
    feature : hashable
        Name of the chosen feature: a string, a number, or a tuple such as ``("T", 500)``.
    subset : int
        Number of the subset that the feature joined. Subsets are numbered from 0 in the order in
        which they were created.
    gain : float
        Information about the target that the feature added, in nats.
    information : float
        Information about the target that all features chosen since the last restart have together,
        in nats.
    seconds : float
        Duration of the round, including the checkpoint.
    n_scans : int
        Number of scans in the round; 0 if the results of earlier scans were sufficient. The
        first scan of a run belongs to no round and is not counted.
    method : str
        Name of the method, with the options that differ from the defaults.

    Examples
    --------
    >>> ended = RoundEnded(2, "x3", subset=0, gain=0.4, information=0.9, seconds=0.2, n_scans=1)
    >>> ended.feature
    'x3'
    """

    rank: int
    feature: Hashable
    subset: int
    gain: float
    information: float
    seconds: float
    n_scans: int
    method: str = "hofs"


Event = (
    EncodeStarted
    | EncodeEnded
    | RoundStarted
    | CompileStarted
    | ScanStarted
    | Advanced
    | ScanEnded
    | PanelsAdvanced
    | RoundEnded
)
Notify = Callable[[Event], None]


def tell_all(listeners: Sequence[Notify], event: Event) -> None:
    """Call every listener with the event.

    Examples
    --------
    >>> tell_all([print], ScanStarted(1, "pair-terms"))
    ScanStarted(rank=1, reduction='pair-terms', n_reductions=1)
    """
    for listener in listeners:
        listener(event)
