"""Save and load checkpoints: one file in a locked directory, replaced after every round.

Layout::

    <directory>
      checkpoint.npz                 the search after the last round, see `snapshot_file`
      checkpoint.npz.<hex>.partial   the next checkpoint while it is being written
      lock                           locked during a run; names the process that holds it
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hofs_dask.errors import CheckpointError
from hofs_dask.io.files import LockedError, check_apart, locked, read_file, write_file
from hofs_dask.io.paths import as_path, is_url
from hofs_dask.search.snapshot import Snapshot
from hofs_dask.search.snapshot_file import check_ours, damaged, read_snapshot, to_bytes

FILE = "checkpoint.npz"
LOCK = "lock"
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
#: Content that `locked` writes to a lock file. It is empty if the disk is full or the run has only
#: just started.
HOLDER = re.compile(rb"(process \d+ on [^\n]*\n)?")


class Checkpoint:
    """A directory with the saved search of one run; use `open_checkpoint` to open one.

    Parameters
    ----------
    directory
        An existing directory that this process has locked.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

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
        file = self.directory / FILE
        if not os.path.lexists(file):
            return None
        saved, snapshot = read_snapshot(file)
        wanted = json.loads(json.dumps(_with_version(run)))
        differing = [
            f"{name}: {saved.get(name)!r} in the checkpoint, {wanted[name]!r} now"
            for name in _differing(saved, wanted)
        ]
        if differing:
            raise ValueError(
                f"the checkpoint {str(self.directory)!r} belongs to another run: "
                f"{'; '.join(differing)}. Give another directory, or remove this one to start over"
            )
        if shape is not None and snapshot.counts.shape != shape:
            raise damaged(file, f"its counts have shape {snapshot.counts.shape}, not {shape}")
        if state is not None and type(snapshot.state) is not state:
            kind = type(snapshot.state).__name__
            raise damaged(file, f"its state is a {kind}, not a {state.__name__}")
        return snapshot

    def save(self, run: Mapping[str, object], snapshot: Snapshot) -> None:
        """Replace the saved search; if this fails, the earlier one remains.

        Raises
        ------
        CheckpointError
            If the disk is full or cannot be written to.
        """
        file = self.directory / FILE
        is_first = not os.path.lexists(file)
        try:
            write_file(file, [to_bytes(_with_version(run), snapshot)], sync=True)
        except OSError as error:
            kept = (
                "no round has been saved yet: free some disk space and run the same call again"
                if is_first
                else "the checkpoint of the previous round is intact: free some disk space and run "
                "the same call again to resume from it"
            )
            raise CheckpointError(
                f"the checkpoint {str(file)!r} cannot be written ({error.strerror or error}); "
                f"{kept}"
            ) from error


@contextlib.contextmanager
def open_checkpoint(
    path: str | os.PathLike[str], sources: Iterable[str] = ()
) -> Iterator[Checkpoint]:
    """Open the checkpoint at a path, locked until the end of the block.

    Parameters
    ----------
    path
        A directory that does not exist yet, is empty, or holds a checkpoint.
    sources
        Paths and URLs of the data. The checkpoint must not be inside any of them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_checkpoint(folder) as checkpoint:
    ...     print(checkpoint.load({"criterion": "joint"}))
    None
    """
    text = as_path(path)
    if is_url(text):
        raise ValueError(f"checkpoint is {text!r}, which is a URL; give a local directory")
    check_apart(text, sources, "checkpoint")
    directory = Path(text)
    if _names_in(directory):
        foreign = _foreign_in(directory)
        if foreign:
            raise ValueError(
                f"checkpoint is {text!r}, which holds files that are not part of a checkpoint "
                f"({min(foreign)!r}); give a new or an empty directory"
            )
    with contextlib.ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(directory / LOCK))
        except LockedError as error:
            raise CheckpointError(
                f"the checkpoint {text!r} is in use by {error}; wait until that run has ended, or "
                "give another directory"
            ) from error
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint directory {text!r} cannot be written to and locked "
                f"({error.strerror or error}); give another directory"
            ) from error
        _remove_partials(directory)
        yield Checkpoint(directory)


def open_part(
    path: str | os.PathLike[str], name: str, sources: Iterable[str] = ()
) -> contextlib.AbstractContextManager[Checkpoint]:
    """Open the checkpoint of one search of a comparison, in a subdirectory.

    Parameters
    ----------
    path
        The directory of the comparison. It does not exist yet, is empty, or contains only
        checkpoints of a comparison.
    name
        Name of the search.
    sources
        Paths and URLs of the data. The checkpoint must not be inside any of them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_part(folder, "jmi") as checkpoint:
    ...     checkpoint.directory.name
    'jmi'
    """
    text = as_path(path)
    if not is_url(text):  # `open_checkpoint` refuses a URL
        sources = tuple(sources)
        check_apart(text, sources, "checkpoint")
        folder = Path(text)
        found = _names_in(folder)
        if FILE in found:
            raise ValueError(
                f"checkpoint is {text!r}, which holds the checkpoint of a single selection; give "
                "another directory"
            )
        if found and not any(_is_ours(folder / each) for each in found):
            raise ValueError(
                f"checkpoint is {text!r}, which holds files that are not part of a comparison "
                f"({min(found)!r}); give a new or an empty directory"
            )
    return open_checkpoint(f"{text}/{name}", sources)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Snapshot]:
    """Return the description of the run that wrote a checkpoint, and the saved search.

    The description contains everything that the search depends on, by name. The checkpoint is not
    locked.

    Parameters
    ----------
    path
        The directory of the checkpoint.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    CheckpointError
        If the checkpoint is damaged.
    """
    file = Path(as_path(path)) / FILE
    if not os.path.lexists(file):
        raise FileNotFoundError(f"no checkpoint at {str(file.parent)!r}")
    return read_snapshot(file)


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


def _names_in(directory: Path) -> set[str]:
    """Return the names of all files and folders in a directory; none if it does not exist."""
    try:
        return set(os.listdir(directory))  # noqa: PTH208 - iterdir gives no names
    except FileNotFoundError:
        return set()
    except NotADirectoryError as error:
        if not directory.exists():  # one of its parents is a file
            return set()
        raise ValueError(
            f"checkpoint is {str(directory)!r}, which is a file; give a directory"
        ) from error
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint directory {str(directory)!r} cannot be read "
            f"({error.strerror or error}); give another directory"
        ) from error


def _foreign_in(directory: Path) -> set[str]:
    """Return the names in a directory that do not belong to a checkpoint.

    Raises
    ------
    CheckpointError
        If the directory has a checkpoint that cannot be read.
    """
    found = _names_in(directory)
    foreign = {LOCK} & found if not _is_lock(directory / LOCK) else set()
    if FILE not in found:
        foreign |= {name for name in found if name != LOCK and not PARTIAL.fullmatch(name)}
    else:
        check_ours(directory / FILE)
    return foreign


def _is_ours(directory: Path) -> bool:
    """Return whether a directory is a checkpoint that `open_checkpoint` created."""
    try:
        return bool(_names_in(directory)) and not _foreign_in(directory)
    except (CheckpointError, ValueError):
        return False


def _is_lock(path: Path) -> bool:
    """Return whether `locked` may write a lock file: the file is absent, or is an earlier lock."""
    try:
        return not path.is_symlink() and HOLDER.fullmatch(read_file(path, 1000)) is not None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _remove_partials(directory: Path) -> None:
    """Remove incomplete checkpoints of killed runs."""
    for name in _names_in(directory):
        if PARTIAL.fullmatch(name):
            with contextlib.suppress(OSError):  # for example a directory
                (directory / name).unlink()
