"""Files of a result on remote storage: created in an empty place, read within bounds.

There is no rename of many objects in one step, so that nothing is ever replaced.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from hofs_dask.results.saving.atomic import MOST_ENTRIES


class Remote:
    """A prefix of remote storage.

    Examples
    --------
    >>> place = Remote("memory://example/result.zarr")
    >>> place.create({"zarr.json": b"{}"})
    >>> place.list_files(), place.read("zarr.json", 9)
    ({'zarr.json': 2}, b'{}')
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.system, self.root = url_to_fs(address)

    @property
    def local(self) -> Path | None:
        """The path of this machine that the address stands for, None where there is none."""
        return Path(self.root) if isinstance(self.system, LocalFileSystem) else None

    def is_free(self) -> bool:
        """Return whether there is nothing at this address, nor below it."""
        self.system.invalidate_cache()
        try:
            return not self.system.ls(self.root, detail=False)
        except FileNotFoundError:
            return True

    def create(self, files: Mapping[str, bytes]) -> None:
        """Write files, in this order, each of which must be new."""
        made: list[str] = []
        try:
            for name, content in files.items():
                self.system.pipe_file(f"{self.root}/{name}", content, mode="create")
                made.append(f"{self.root}/{name}")
        except Exception as error:
            for name in made:
                with contextlib.suppress(Exception):
                    self.system.rm_file(name)
            text = f"{self.address} was not saved: {type(error).__name__}: {error}"
            if isinstance(error, FileExistsError):
                raise FileExistsError(f"{text}; another process writes there") from error
            raise OSError(text) from error
        finally:
            self.system.invalidate_cache()

    def list_files(self) -> dict[str, int]:
        """Return the sizes of the files below this address, by name."""
        self.system.invalidate_cache()
        found: dict[str, dict[str, Any]] = self.system.find(self.root, detail=True)
        if len(found) > MOST_ENTRIES:
            raise OSError(errno.EFBIG, "more files than a result has", self.address)
        start = len(self.root.rstrip("/")) + 1
        return {name[start:]: int(info["size"]) for name, info in found.items()}

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most so many bytes, of the address itself for ''."""
        place = f"{self.root}/{name}" if name else self.root
        if int(self.system.size(place)) > most:
            raise OSError(errno.EFBIG, f"larger than the {most} bytes expected", name)
        content: bytes = self.system.cat_file(place)
        if len(content) > most:
            raise OSError(errno.EFBIG, f"larger than the {most} bytes expected", name)
        return content
