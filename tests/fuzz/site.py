"""The files of a case: the artefact and the files around it, which must not change."""

from __future__ import annotations

import os
import pickle
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Larger files, which a case may have created, are not read.
MOST_BYTES = 2**24


@dataclass(frozen=True)
class Site:
    """An artefact to damage.

    Attributes
    ----------
    root : Path
        The artefact, a file or a folder.
    outside : Path
        A folder that must not change.
    rng : Generator
        Random generator of the damage.
    """

    root: Path
    outside: Path
    rng: np.random.Generator

    @property
    def marker(self) -> Path:
        """The file that is created if code of an artefact is run."""
        return self.outside.parent / "marker"

    def entries(self) -> list[Path]:
        """Return all files and folders, the artefact itself included."""
        if not self.root.is_dir() or self.root.is_symlink():
            return [self.root] * os.path.lexists(self.root)
        return [self.root, *sorted(self.root.rglob("*"))]

    def files(self) -> list[Path]:
        """Return the regular files that can be read."""
        found = [(path, path.lstat()) for path in self.entries()]
        return [
            path
            for path, about in found
            if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_BYTES
        ]

    def pick(self, choices: Any) -> Any:
        """Return a random choice; raise a LookupError if there are no choices."""
        found = list(choices)
        if not found:
            raise LookupError("there is nothing to choose from")
        return found[self.rng.integers(len(found))]

    def name(self, path: Path) -> str:
        """Return the name of a path for a report."""
        return str(path.relative_to(self.root.parent))

    def payload(self) -> bytes:
        """Return a pickled array of objects that creates the marker when it is loaded."""
        array = np.empty(1, object)
        array[0] = _Payload(str(self.marker))
        return pickle.dumps(array)


class _Payload:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({self.marker!r}, 'w').close()",)


State = dict[str, tuple[int, int, int, int]]


def state_of(*folders: Path) -> State:
    """Return a record of all files in some folders, to detect changes."""
    found: State = {}
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            about = path.lstat()
            found[str(path)] = (about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns)
    return found


def changes(before: State, after: State) -> list[str]:
    """Return the paths that were added, removed or changed."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
