"""The public functions: `select`, `encode` and `estimate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from hofs_dask.checkpoint import open_checkpoint
from hofs_dask.config import HOFS, as_method
from hofs_dask.data.codes import CodeStore, is_codes, open_codes, temporary_store
from hofs_dask.data.encode import encode_source
from hofs_dask.data.source import open_source
from hofs_dask.engine.budget import Estimate
from hofs_dask.errors import unknown
from hofs_dask.events import Event, Progress, progress_stream
from hofs_dask.rounds import largest_pass, search
from hofs_dask.selection import Selection


def select(
    data: Any,
    target: Any,
    n_features: int,
    *,
    method: str | HOFS = "hofs",
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | None = None,
    store: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Selection:
    """The features that together say most about a target, ranked, in subsets that work together.

    Parameters
    ----------
    data
        A numpy or dask array (sample, feature), a pandas data frame, an xarray DataArray or
        Dataset, a Zarr array or group or its path, or a code store (or its path) that `encode`
        made.
    target
        An array, or the name of a variable or column of `data`; None for a code store's own.
    n_features
        How many features to choose.
    method
        A name of `METHODS`, or a method object with options such as ``HOFS(criterion="sum")``.
    feature_dim
        The dimension of an xarray object that holds the features; all others are samples.
    nominal
        Names of features whose numbers are categories, or True for all of them. Strings,
        categoricals and booleans are nominal anyway.
    target_kind
        ``"class"``, ``"ordinal"`` or ``"continuous"``. ``"auto"`` takes booleans, strings,
        categoricals and integers of at most 254 values as classes, anything else as continuous.
    bins
        The number of codes of a feature with more distinct values: ``"auto"`` grows with the
        number of samples, a number up to 254, ``"width"`` for bins of equal width, None for
        integers 0..253 that are codes already.
    include, exclude
        Features that come first, in this order, and features that are never chosen: names, or
        positions where the names are strings.
    min_gain
        Stop when the best feature gains less than this many nats, instead of starting afresh. The
        first feature is always chosen.
    store
        Where to keep the code store, so that the next call need not encode again. None for a
        temporary one.
    checkpoint
        A directory that the search is kept in after every round, one run at a time. The same call
        after an interruption goes on from there, to the same result; so does one that asks for
        more features. A directory of another run is refused.
    callback
        Called with every event: `RoundStarted`, `PassStarted`, `PassDone`, `RoundEnded`. What it
        raises ends the run; the checkpoint holds all rounds that have ended.
    progress
        Whether to write a line a round to the standard error. None for where that is a terminal.

    Returns
    -------
    Selection
        The ranked features, their subsets, and what each brought.

    Examples
    --------
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> x = rng.normal(size=(1000, 5))
    >>> x[:, 3] += 2 * y
    >>> hd.select(x, y, n_features=1).features
    ['x3']
    """
    chosen = as_method(method)
    _check_numbers(n_features, min_gain)
    _check_listening(callback, progress)
    with ExitStack() as stack:
        # first of all: a long encoding should not end at a lock
        kept = None if checkpoint is None else stack.enter_context(open_checkpoint(checkpoint))
        source = None
        if isinstance(data, CodeStore) or _is_code_path(data):
            codes = _labelled(data, target)
            names: Sequence[Hashable] = codes.names
        else:
            source = open_source(data, target, feature_dim=feature_dim, nominal=nominal)
            names = source.names
        # before the data is read: a name that is wrong is wrong now
        forced, banned = _columns(names, include, "include"), _columns(names, exclude, "exclude")
        both = [names[i] for i in forced if i in banned]
        if both:
            raise ValueError(f"{both[0]!r} is both in include and in exclude; keep it in one")
        if n_features > len(names) - len(banned):
            raise ValueError(
                f"n_features is {n_features} but only {len(names) - len(banned)} features can be "
                f"chosen: {len(names)} features, {len(banned)} of them excluded"
            )
        if source is not None:
            place = stack.enter_context(temporary_store()) if store is None else store
            codes = encode_source(source, place, bins=bins, target_kind=target_kind)
        listeners = [] if callback is None else [callback]
        stream = progress_stream(progress)
        if stream is not None:
            listeners.insert(0, stack.enter_context(Progress(stream)))
        return search(
            codes,
            chosen,
            n_features,
            include=forced,
            exclude=banned,
            min_gain=min_gain,
            checkpoint=kept,
            listeners=listeners,
        )


def encode(
    data: Any,
    target: Any,
    store: str | os.PathLike[str],
    *,
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    chunks: tuple[int, int] | None = None,
) -> CodeStore:
    """The code store of some data and a target, written chunk by chunk, or reused if it is there.

    Parameters
    ----------
    data, target, feature_dim, nominal, target_kind, bins
        As for `select`.
    store
        The path of the store. A store of the same data and options is reused, with new labels
        where the target is new; a store of other data or options is written anew.
    chunks
        Samples and features a chunk. By default a chunk is about 8 MiB.

    Returns
    -------
    CodeStore
        The store; it, or its path, is `data` for `select`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = hd.encode(x, x[:, 0] > 0, folder + "/codes.zarr")
    ...     hd.select(codes, None, n_features=1).features
    ['x0']
    """
    source = open_source(data, target, feature_dim=feature_dim, nominal=nominal)
    return encode_source(source, store, bins=bins, target_kind=target_kind, chunks=chunks)


def estimate(
    codes: CodeStore | str | os.PathLike[str], n_features: int, *, method: str | HOFS = "hofs"
) -> Estimate:
    """The memory that a selection takes of a worker: of its largest pass, before anything runs.

    Parameters
    ----------
    codes
        A code store or its path.
    n_features
        How many features are to be chosen.
    method
        As for `select`.

    Returns
    -------
    Estimate
        Reads as a line: what is resident, what tasks, partials, context and cache take, and the
        limit. A pass that does not fit is refused with a MemoryError before it starts.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = hd.encode(x, x[:, 0] > 0, folder + "/codes.zarr")
    ...     found = hd.estimate(codes, n_features=3)
    >>> found.needed < found.limit
    True
    """
    chosen = as_method(method)
    _check_numbers(n_features, None)
    store = codes if isinstance(codes, CodeStore) else open_codes(codes)
    if n_features > store.n_features:
        raise ValueError(
            f"n_features is {n_features} but only {store.n_features} features can be chosen"
        )
    return largest_pass(store, chosen, n_features)


def _check_numbers(n_features: object, min_gain: object) -> None:
    if isinstance(n_features, bool) or not isinstance(n_features, (int, np.integer)):
        raise TypeError(f"n_features is {n_features!r}; give a whole number such as 10")
    if n_features < 1:
        raise ValueError(f"n_features is {n_features}; give 1 or more")
    if min_gain is not None:
        if isinstance(min_gain, bool) or not isinstance(min_gain, (int, float, np.number)):
            raise TypeError(f"min_gain is {min_gain!r}; give a number of nats such as 0.01")
        if not np.isfinite(min_gain):
            raise ValueError(f"min_gain is {min_gain!r}; give a finite number such as 0.01")


def _check_listening(callback: object, progress: object) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback is a {type(callback).__name__}; give a function of one event, such as print"
        )
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress is {progress!r}; give True, False or None")


def _is_code_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike)) and is_codes(data)


def _labelled(data: CodeStore | str | os.PathLike[str], target: Any) -> CodeStore:
    if target is not None and not isinstance(target, str):
        raise TypeError(
            f"target is a {type(target).__name__}, but a code store keeps its labels by name: "
            "give target=None or a name, or add it with hofs_dask.encode(data, target, store)"
        )
    if isinstance(data, CodeStore) and target in (None, data.labels.name):
        return data
    return open_codes(data.path if isinstance(data, CodeStore) else data, target)


def _columns(names: Sequence[Hashable], given: Sequence[Hashable], what: str) -> list[int]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = given if isinstance(given, str) else names[0]
        raise TypeError(f"{what} is {given!r}; give a list of names, such as [{example!r}]")
    by_name = {name: i for i, name in enumerate(names)}
    positions = all(isinstance(name, str) for name in names)
    columns = []
    for name in given:
        if name in by_name:
            column = by_name[name]
        elif positions and isinstance(name, int) and -len(names) <= name < len(names):
            column = name % len(names)
        else:
            raise unknown(f"feature in {what}", name, names)
        if column in columns:
            raise ValueError(f"{name!r} is twice in {what}; name it once")
        columns.append(column)
    return columns
