"""The checkpoint of a search: one file in a locked directory, replaced whole after every round.

Layout::

    <directory>
      checkpoint.npz       arrays, and a JSON text that says what they are
      checkpoint.npz.part  the next one while it is written
      lock                 held while a run is at work; the process that holds it
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hofs_dask.data.paths import as_path, is_url
from hofs_dask.engine.posteriors import PosteriorRow
from hofs_dask.errors import CheckpointError
from hofs_dask.methods.joint import JointState
from hofs_dask.methods.pairwise import PairwiseState
from hofs_dask.methods.total import TotalState
from hofs_dask.methods.vmi import VMIState
from hofs_dask.selection import Pick

FORMAT = "hofs_dask checkpoint"
VERSION = 2

FILE = "checkpoint.npz"
PART = "checkpoint.npz.part"
LOCK = "lock"
#: The array that holds the JSON text.
TEXT = "json"

#: What JSON holds as it is; floats too, since their text is exact.
Plain = str | int | float | None


@dataclass(frozen=True)
class Snapshot:
    """A search between two rounds: all that the next round needs.

    Attributes
    ----------
    counts : ndarray of int64 (feature, fold, class, code)
        Of every feature, so that a run that goes on need not count again.
    picks : tuple of Pick
        What the rounds so far chose.
    state : JointState, TotalState, PairwiseState or VMIState
        What the method has learned.
    ended : bool
        Whether no further feature gains enough.
    """

    counts: np.ndarray
    picks: tuple[Pick, ...]
    state: Any
    ended: bool


#: The records that a checkpoint may hold, by name: nothing else is ever made from a file.
RECORDS = {
    cls.__name__: cls
    for cls in (Snapshot, Pick, JointState, TotalState, PairwiseState, VMIState, PosteriorRow)
}


class Checkpoint:
    """A directory that one run at a time keeps its search in; `open_checkpoint` makes them.

    Parameters
    ----------
    directory
        That exists, and is locked by this process.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, run: Mapping[str, object]) -> Snapshot | None:
        """The search that was saved here, None where nothing was.

        Parameters
        ----------
        run
            What the search depends on, by name: data, target, method, options.

        Raises
        ------
        ValueError
            What was saved here belongs to another run; names all that differs.
        CheckpointError
            The file is damaged.
        """
        file = self.directory / FILE
        if not file.exists():
            return None
        saved, tree, arrays = _read(file)
        wanted = json.loads(json.dumps(_with_version(run)))
        differing = [
            f"{name}: {saved[name]!r} in the checkpoint, {wanted[name]!r} now"
            for name in wanted
            if name in saved and saved[name] != wanted[name]
        ]
        if differing:
            raise ValueError(
                f"the checkpoint {str(self.directory)!r} is of another run: "
                f"{'; '.join(differing)}. Give another directory, or remove this one to start anew"
            )
        return _restored(file, tree, arrays)

    def save(self, run: Mapping[str, object], snapshot: Snapshot) -> None:
        """Replace what was saved here, or leave it as it is where that fails.

        Raises
        ------
        CheckpointError
            The disk is full, or cannot be written to.
        """
        arrays: dict[str, np.ndarray] = {}
        text = {
            "format": FORMAT,
            "run": _with_version(run),
            "tree": encode(snapshot, arrays),
        }
        arrays[TEXT] = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
        part = self.directory / PART
        try:
            with part.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self.directory / FILE)
            _sync_directory(self.directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise CheckpointError(
                f"the checkpoint {str(self.directory / FILE)!r} cannot be written "
                f"({error.strerror or error}); the one of the round before is intact: make room "
                "and run the same call again to go on from there"
            ) from error


@contextlib.contextmanager
def open_checkpoint(path: str | os.PathLike[str]) -> Iterator[Checkpoint]:
    """The checkpoint at a path, locked until the end of the block.

    Parameters
    ----------
    path
        A directory that is new, empty, or has a checkpoint in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_checkpoint(folder) as checkpoint:
    ...     print(checkpoint.load({"criterion": "joint"}))
    None
    """
    text = as_path(path)
    if is_url(text):
        raise ValueError(f"checkpoint is {text!r}; give a directory of this machine")
    directory = Path(text)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"checkpoint is {text!r}, which is a file; give a directory")
    found = {entry.name for entry in directory.iterdir()} if directory.exists() else set()
    if FILE not in found and found - {PART, LOCK}:
        raise ValueError(
            f"checkpoint is {text!r}, which holds something else than a checkpoint "
            f"({min(found - {PART, LOCK})!r}); give a new or an empty directory"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint directory {text!r} cannot be written to ({error.strerror or error})"
        ) from error
    with lock:
        _acquire(lock.fileno(), directory)
        yield Checkpoint(directory)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, object], Snapshot]:
    """What the run of a checkpoint depends on, by name, and its search; it need not be locked.

    Parameters
    ----------
    path
        The directory.

    Examples
    --------
    >>> import tempfile
    >>> snapshot = Snapshot(np.zeros((1, 4, 2, 2), int), picks=(), state=None, ended=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_checkpoint(folder) as checkpoint:
    ...         checkpoint.save({"criterion": "joint"}, snapshot)
    ...     read_checkpoint(folder)[0]["criterion"]
    'joint'
    """
    file = Path(as_path(path)) / FILE
    if not file.exists():
        raise FileNotFoundError(f"no checkpoint at {str(file.parent)!r}")
    run, tree, arrays = _read(file)
    return run, _restored(file, tree, arrays)


def encode(value: object, arrays: dict[str, np.ndarray]) -> object:
    """The value as a tree that JSON can hold; its arrays are put into ``arrays``.

    Records of `RECORDS`, tuples, arrays and plain values are all there is. Whole numbers are kept
    in the smallest type that holds them, and arrays that repeat one number as that number.

    Examples
    --------
    >>> arrays = {}
    >>> tree = encode((1, np.arange(3)), arrays)
    >>> arrays["0"].dtype
    dtype('uint8')
    >>> decode(tree, arrays)
    (1, array([0, 1, 2]))
    """
    if isinstance(value, Plain):
        return value
    if isinstance(value, tuple):
        return [encode(item, arrays) for item in value]
    if isinstance(value, np.ndarray):
        # sums of floats depend on the order of the axes in memory: it is kept
        axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        repeated = value.size > 1 and not any(value.strides)
        stored = value[(0,) * value.ndim] if repeated else value.transpose(axes)
        name = str(len(arrays))
        arrays[name] = np.asarray(_shrunk(np.asarray(stored)), order="C")
        tree = {"array": name, "dtype": value.dtype.str, "axes": axes}
        return tree | {"shape": value.shape} if repeated else tree
    if is_dataclass(value) and type(value) is RECORDS.get(type(value).__name__):
        items = {field.name: encode(getattr(value, field.name), arrays) for field in fields(value)}
        return {"record": type(value).__name__, "fields": items}
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def decode(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that `encode` made a tree and arrays of.

    Examples
    --------
    >>> decode({"array": "0", "dtype": "<i8", "axes": [0]}, {"0": np.array([7], np.uint8)})
    array([7])
    """
    if isinstance(tree, list):
        return tuple(decode(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "record" in tree:
        items = {name: decode(item, arrays) for name, item in tree["fields"].items()}
        return RECORDS[tree["record"]](**items)
    array = arrays[tree["array"]].astype(tree["dtype"], copy=False)
    if "shape" in tree:
        return np.broadcast_to(array, tree["shape"])
    return array.transpose(np.argsort(tree["axes"]))


def _shrunk(array: np.ndarray) -> np.ndarray:
    """The array in the smallest unsigned type that holds it, if it is of whole numbers >= 0."""
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        return array
    return array.astype(np.min_scalar_type(array.max()), copy=False)


def _with_version(run: Mapping[str, object]) -> dict[str, object]:
    """What a run depends on, the program included: within a minor version files are understood."""
    minor = ".".join(version("hofs-dask").split(".")[:2])
    return {"checkpoint version": VERSION, "hofs_dask version": minor, **run}


def _read(file: Path) -> tuple[dict[str, object], object, dict[str, np.ndarray]]:
    """What a checkpoint says about its run, its tree and its arrays."""
    try:
        arrays = {}
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                arrays[name.removesuffix(".npy")] = array
        text = json.loads(arrays.pop(TEXT).tobytes())
        if text["format"] != FORMAT:
            raise ValueError(f"its format is {text['format']!r}")
        return text["run"], text["tree"], arrays
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        NotImplementedError,  # what zipfile says to a damaged method of compression
        RuntimeError,  # or to a damaged flag of encryption
        tokenize.TokenError,  # numpy reads the header of an array as Python
        zipfile.BadZipFile,
    ) as error:
        raise _damaged(file, error) from error


def _restored(file: Path, tree: object, arrays: Mapping[str, np.ndarray]) -> Snapshot:
    try:
        snapshot = decode(tree, arrays)
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"it holds a {type(snapshot).__name__}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(file, error) from error
    return snapshot


def _damaged(file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {str(file)!r} cannot be read ({error}); remove it to start anew, or give "
        "another directory"
    )


def _acquire(lock: int, directory: Path) -> None:
    """Lock a directory for this process; the kernel frees it when the process ends."""
    import fcntl  # Windows has none, and needs it for checkpoints alone

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 1000, 0).decode().strip() or "another process"
        raise CheckpointError(
            f"the checkpoint {str(directory)!r} is in use by {holder}; wait until that run has "
            "ended, or give another directory"
        ) from error
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint directory {str(directory)!r} cannot be locked "
            f"({error.strerror or error}); give a directory on another disk"
        ) from error
    with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())


def _sync_directory(directory: Path) -> None:
    """Make sure that a file's new name outlives a loss of power."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
