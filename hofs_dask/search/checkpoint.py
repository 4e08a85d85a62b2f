"""Save and load checkpoints.

A checkpoint is one file, replaced after every round, in a directory that is locked during a run.

Layout::

    <directory>
      checkpoint.npz                 the search after the last round, see `snapshot_file`
      checkpoint.npz.<hex>.partial   the next checkpoint while it is being written
      lock                           locked during a run; names the process that holds it
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hofs_dask.errors import AGAIN, CheckpointError, advised, noted
from hofs_dask.io.files import LockedError, check_apart
from hofs_dask.io.places import LOCK, Location, Place, as_place
from hofs_dask.search.snapshot import Snapshot
from hofs_dask.search.snapshot_file import check_ours, damaged, read_snapshot, to_bytes

FILE = "checkpoint.npz"
#: Names of entries in the description of a run. A key names the entry that identifies some content,
#: and its value names the entry that identifies the source of this content. If either entry is
#: equal in a checkpoint and a run, they have the same content.
ORIGINS = {
    "data": "data source",
    "target values": "target source",
    "group ids": "group source",
}
#: Names that `write_file` gives to incomplete checkpoints.
PARTIAL = re.compile(re.escape(FILE) + r"\.[0-9a-f]{32}\.partial")
#: Content of a lock; empty if the disk is full or the run is just starting.
HOLDER = re.compile(rb"(process \d+ on [^\n]*\n)?")


class Checkpoint:
    """Saves and loads the search of one run at a time; `open_checkpoint` returns one.

    Parameters
    ----------
    place
        A directory or a prefix of remote storage that this process has locked.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(
        self,
        run: Mapping[str, object],
        shape: tuple[int, ...] | None = None,
        state: type | None = None,
    ) -> Snapshot | None:
        """Return the saved search, or None if there is none.

        Parameters
        ----------
        run
            The description of the run: everything that the search depends on, by name (data,
            target, method, options). The entry ``"data"`` identifies the code store, and
            ``"data source"`` identifies the source of the store (None if unknown). If one of the
            two entries is equal, the data is the same.
        shape
            Expected shape of the counts: (feature, fold, class, code).
        state
            Expected type of the method's state.

        Raises
        ------
        ValueError
            If the saved search belongs to another run; the message names all differences.
        CheckpointError
            If the file is damaged, or does not match the store or the method.
        """
        if FILE not in _names_in(self.place):
            return None
        saved, snapshot = read_snapshot(self.place, FILE)
        wanted = json.loads(json.dumps(_with_version(run)))
        differing = [
            f"{name}: {saved.get(name)!r} in the checkpoint, {wanted[name]!r} now"
            for name in _differing(saved, wanted)
        ]
        if differing:
            raise ValueError(
                f"the checkpoint {self.place.path!r} belongs to another run: "
                f"{'; '.join(differing)}. Give another directory, or remove this one to start over"
            )
        if shape is not None and snapshot.counts.shape != shape:
            raise damaged(
                self.place, FILE, f"its counts have shape {snapshot.counts.shape}, not {shape}"
            )
        if state is not None and type(snapshot.state) is not state:
            kind = type(snapshot.state).__name__
            raise damaged(self.place, FILE, f"its state is a {kind}, not a {state.__name__}")
        return snapshot

    def save(self, run: Mapping[str, object], snapshot: Snapshot) -> None:
        """Replace the saved search; if this fails, the earlier one remains.

        Raises
        ------
        CheckpointError
            If the disk is full or cannot be written to.
        """
        try:
            content = to_bytes(_with_version(run), snapshot)
            self.place.write(FILE, [content], sync=True, private=True)
        except OSError as error:
            local = self.place.is_local
            do = "free some disk space and" if local else "when the storage can be written to,"
            kept = f"no round has been saved yet: {do} run the same call again"
            # the names are not known if the storage cannot be reached
            with contextlib.suppress(OSError, CheckpointError):
                if FILE in _names_in(self.place):
                    kept = (
                        f"the checkpoint of the previous round is intact: {do} run the same call "
                        "again to resume from it"
                    )
            raise CheckpointError(
                f"the checkpoint {f'{self.place.path}/{FILE}'!r} cannot be written "
                f"({error.strerror or error}); {kept}"
            ) from error


class HeldRounds:
    """Keeps the search of one run in memory, as a `Checkpoint` keeps it in a file.

    Examples
    --------
    >>> from hofs_dask.search.snapshot import Snapshot
    >>> held = HeldRounds()
    >>> held.save({"method": "jmi"}, Snapshot(counts=None, picks=(), state=None, ended=False))
    >>> held.load({"method": "jmi"}).picks, held.load({"method": "mim"})
    ((), None)
    """

    def __init__(self) -> None:
        self._saved: tuple[dict[str, object], Snapshot] | None = None

    def load(
        self,
        run: Mapping[str, object],
        shape: tuple[int, ...] | None = None,  # noqa: ARG002
        state: type | None = None,  # noqa: ARG002
    ) -> Snapshot | None:
        """Return the search that was saved last, or None if it belongs to another run."""
        if self._saved is None or self._saved[0] != dict(run):
            return None
        return self._saved[1]

    def save(self, run: Mapping[str, object], snapshot: Snapshot) -> None:
        """Replace the saved search."""
        self._saved = (dict(run), snapshot)


@contextlib.contextmanager
def open_checkpoint(location: Location, sources: Iterable[str] = ()) -> Iterator[Checkpoint]:
    """Open the checkpoint at a path, a URL or in a Zarr store, locked until the end of the block.

    Parameters
    ----------
    location
        A directory or prefix that does not exist yet, is empty, or holds a checkpoint.
    sources
        Paths and URLs of the data. The checkpoint must not be inside any of them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_checkpoint(folder) as checkpoint:
    ...     print(checkpoint.load({"criterion": "joint"}))
    None
    """
    place = as_place(location)
    text = place.path
    place.refuse_read_only("checkpoint")
    check_apart(text, sources, "checkpoint")
    if _names_in(place):
        foreign = _foreign_in(place)
        if foreign:
            raise ValueError(
                f"checkpoint is {text!r}, which holds files that are not part of a checkpoint "
                f"({min(foreign)!r}); give a new or an empty directory"
            )
    with contextlib.ExitStack() as stack:
        try:
            if place.is_local:
                Path(text).mkdir(0o700, parents=True, exist_ok=True)
            stack.enter_context(place.held())
        except LockedError as error:
            raise CheckpointError(
                f"the checkpoint {text!r} is in use by {error}; wait until that run has ended, or "
                "give another directory"
            ) from error
        except OSError as error:
            failed = CheckpointError(
                f"the checkpoint directory {text!r} cannot be written to and locked "
                f"({error.strerror or error}); {AGAIN}, or give another directory"
            )
            raise noted(failed, error) from error
        _remove_partials(place)
        with advised(f"the checkpoint contains all finished rounds: {AGAIN}"):
            yield Checkpoint(place)


def open_part(
    location: Location, name: str, sources: Iterable[str] = ()
) -> contextlib.AbstractContextManager[Checkpoint]:
    """Open the checkpoint of one search of a comparison, in a subdirectory.

    Parameters
    ----------
    location
        The place of the comparison: not existing yet, empty, or with such checkpoints.
    name
        Name of the search.
    sources
        Paths and URLs of the data. The checkpoint must not be inside any of them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_part(folder, "jmi") as checkpoint:
    ...     Path(checkpoint.place.path).name
    'jmi'
    """
    place, sources = as_place(location), tuple(sources)
    place.refuse_read_only("checkpoint")
    check_apart(place.path, sources, "checkpoint")
    found = _names_in(place)
    if FILE in found:
        raise ValueError(
            f"checkpoint is {place.path!r}, which holds the checkpoint of a single selection; give "
            "another directory"
        )
    if found and not any(_is_ours(place / each) for each in found):
        raise ValueError(
            f"checkpoint is {place.path!r}, which holds files that are not part of a comparison "
            f"({min(found)!r}); give a new or an empty directory"
        )
    return open_checkpoint(place / name, sources)


def read_checkpoint(location: Location) -> tuple[dict[str, Any], Snapshot]:
    """Return the description of the run that wrote a checkpoint, and the saved search.

    The description contains everything that the search depends on, by name. The checkpoint is not
    locked.

    Parameters
    ----------
    location
        The place of the checkpoint.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    CheckpointError
        If the checkpoint is damaged.
    """
    place = as_place(location)
    if not has_checkpoint(place):
        raise FileNotFoundError(f"no checkpoint at {place.path!r}")
    return read_snapshot(place, FILE)


def has_checkpoint(location: Location) -> bool:
    """Return whether there is a checkpoint of one search at a place.

    Examples
    --------
    >>> has_checkpoint("no/such/directory")
    False
    """
    return FILE in as_place(location).children()


def _with_version(run: Mapping[str, object]) -> dict[str, object]:
    """Return the description of a run, with the minor version of hofs_dask added."""
    minor = ".".join(version("hofs-dask").split(".")[:2])
    return {"hofs_dask version": minor, **run}


def _differing(saved: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """Return the names of the entries in which the descriptions of two runs differ, see `ORIGINS`.

    Examples
    --------
    >>> saved = {"data": "a", "data source": "s", "method": "jmi"}
    >>> _differing(saved, {"data": "b", "data source": "s", "method": "mim"})
    ['method']
    >>> _differing(saved, {"data": "b", "data source": "t", "method": "jmi"})
    ['data', 'data source']
    """
    differing = [name for name in wanted if saved.get(name) != wanted[name]]
    for content, origin in ORIGINS.items():
        source = wanted.get(origin)
        if content not in differing or (source is not None and saved.get(origin) == source):
            differing = [name for name in differing if name not in (content, origin)]
    return differing


def _names_in(place: Place) -> set[str]:
    """Return the names of all files and folders in a place; none if it does not exist."""
    try:
        if place.is_local and Path(place.path).is_file():
            raise ValueError(f"checkpoint is {place.path!r}, which is a file; give a directory")
        return place.children()
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint directory {place.path!r} cannot be read "
            f"({error.strerror or error}); {AGAIN}, or give another directory"
        ) from error


def _foreign_in(place: Place) -> set[str]:
    """Return the names in a directory that do not belong to a checkpoint.

    Raises
    ------
    CheckpointError
        If the directory has a checkpoint that cannot be read.
    """
    found = _names_in(place)
    foreign = {LOCK} & found if not _is_lock(place) else set()
    if FILE not in found:
        foreign |= {name for name in found if name != LOCK and not PARTIAL.fullmatch(name)}
    else:
        check_ours(place, FILE)
    return foreign


def _is_ours(place: Place) -> bool:
    """Return whether `open_checkpoint` made a directory."""
    try:
        return bool(_names_in(place)) and not _foreign_in(place)
    except (CheckpointError, ValueError):
        return False


def _is_lock(place: Place) -> bool:
    """Return whether a place may be locked: its lock is absent, or is an earlier one."""
    try:
        if place.is_local and Path(place.path, LOCK).is_symlink():
            return False
        return HOLDER.fullmatch(place.read(LOCK, 1000)) is not None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _remove_partials(place: Place) -> None:
    """Remove incomplete checkpoints of killed runs."""
    for name in _names_in(place):
        if PARTIAL.fullmatch(name) and place.is_local:
            with contextlib.suppress(OSError):  # for example a directory
                Path(place.path, name).unlink()
