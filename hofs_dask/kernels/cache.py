"""A cache of compiled kernels on disk, with one file per kernel and signature.

The cache of numba (``cache=True``) has an index file that concurrent processes can overwrite, and
it does not verify what it reads (https://github.com/numba/numba/issues/4807 and
https://github.com/numba/numba/issues/10128). This cache has no index, because the name of a file
contains a digest of everything that its content depends on. A file is written under a temporary
name and then renamed, so that it is always complete. It begins with a digest of its content, which
is verified before the content is used. If a file cannot be read or written, the kernel is compiled
again, and no error is raised.

The files contain native code. They are used only in a directory that belongs to the user and that
nobody else can write to, see `usable_directory`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pickle
import stat
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from llvmlite.binding import address_of_symbol  # type: ignore[import-untyped]
from numba.core import caching, config
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

#: Environment variable with the path of the cache directory; if it is empty, there is no cache.
VARIABLE = "HOFS_DASK_CACHE_DIR"
#: First bytes of a file, before the digest.
MAGIC = b"hofs_dask kernel 1\n"
#: Maximum bytes of a file; the largest kernel has some hundred kilobytes.
MOST_BYTES = 2**27
#: Seconds to wait for another process that compiles the same kernel, and between two checks.
MOST_SECONDS, LOOK_SECONDS = 120.0, 0.02
#: Settings of numba that do not affect compiled code.
HARMLESS = {"NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_THREADING_LAYER"}


class UnsafeDirectoryError(Exception):
    """Raised for a directory from which it is not safe to load native code."""


def default_directory() -> Path | None:
    """Return the configured cache directory, or None if there is no cache."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    try:
        home = Path.home()
    except RuntimeError:  # the user has no home directory
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "hofs_dask"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else home / ".cache") / "hofs_dask"


def usable_directory(path: Path) -> Path:
    """Return the path of a directory after checking that native code can be loaded from it safely.

    A missing directory is created with mode 0700.

    Raises
    ------
    UnsafeDirectoryError
        The path is not absolute, or it is a link. The directory belongs to another user, or others
        can write to it. A directory above it belongs to neither this user nor root, or everybody
        can write to it.
    OSError
        The directory cannot be created or inspected.
    """
    if not path.is_absolute():
        raise UnsafeDirectoryError(f"{str(path)!r} is not an absolute path")
    owners = {0, os.geteuid()}
    for above in reversed(path.resolve().parents):
        found = os.stat(above) if above.exists() else None  # noqa: PTH116 - of the same kind as lstat
        if found is None:
            break
        if found.st_uid not in owners:
            raise UnsafeDirectoryError(f"{str(above)!r} above it belongs to another user")
        if found.st_mode & stat.S_IWOTH:
            raise UnsafeDirectoryError(f"everybody can write to {str(above)!r} above it")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = os.lstat(path)
    if not stat.S_ISDIR(own.st_mode):
        raise UnsafeDirectoryError("it is a link or not a directory")
    if own.st_uid != os.geteuid():
        raise UnsafeDirectoryError("it belongs to another user")
    if own.st_mode & 0o022:
        raise UnsafeDirectoryError("others can write to it")
    return path


def sources_digest() -> str:
    """Return a digest of the sources of all kernels, since a kernel may be inlined into another."""
    found = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


#: Computed once per process, because later edits of the files do not change imported code.
SOURCES = sources_digest()
PACKAGE_VERSION = version("hofs-dask")


def environment() -> tuple[object, ...]:
    """Return the versions and settings on which compiled code depends."""
    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in HARMLESS
    )
    return (
        PACKAGE_VERSION,
        numba.__version__,
        llvmlite.__version__,
        sys.implementation.cache_tag,
        sys.version,
        str(getattr(config, "OPT", None)),
        settings,
    )


class Files:
    """The files of a cache directory, each with a digest of its content.

    Parameters
    ----------
    directory
        A directory that `usable_directory` has checked.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is missing, damaged or not safe to use."""
        try:
            handle = os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            found = os.fstat(handle)
            if (
                not stat.S_ISREG(found.st_mode)
                or found.st_uid != os.geteuid()
                or found.st_mode & 0o022
                or found.st_size > MOST_BYTES
            ):
                return None
            with open(handle, "rb", closefd=False) as file:
                content = file.read(MOST_BYTES)
        except OSError:
            return None
        finally:
            os.close(handle)
        seal, body = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
        return body if seal == MAGIC + hashlib.sha256(body).digest() else None

    def write(self, name: str, body: bytes) -> None:
        """Write a file atomically; errors are ignored."""
        partial = self.directory / f"{name}.{uuid.uuid4().hex}.partial"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
                file.write(MAGIC + hashlib.sha256(body).digest() + body)
            partial.replace(self.directory / name)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        """Wait for the lock of a file; yield whether it was acquired within the time limit."""
        path = self.directory / f"{name}.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            yield False
            return
        held = False
        try:
            held = _lock(handle, time.monotonic() + MOST_SECONDS)
            yield held
        finally:
            if held:
                # processes that wait have this file open; later processes create a new lock file
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            os.close(handle)


def _lock(handle: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_SECONDS)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _external(library: Any) -> list[str]:
    """Return the names of external functions that compiled code calls."""
    functions = library._final_module.functions
    return [
        each.name for each in functions if each.is_declaration and not each.name.startswith("llvm.")
    ]


def _types(sig: Any) -> tuple[Any, ...]:
    """Return the argument types of a signature; numba may pass a tuple of these types instead."""
    return tuple(normalize_signature(sig)[0])


class KernelCache(caching._Cache):
    """The cache of one kernel, with the interface that numba's dispatcher expects.

    Parameters
    ----------
    function
        The plain Python function of the kernel.
    signatures
        The signatures to keep on disk. Code that is compiled for a call from another kernel is part
        of the file of that kernel.
    directory
        Function that returns the cache directory, or None for no cache. It is called when a kernel
        is first loaded or compiled.
    """

    def __init__(
        self,
        function: Callable[..., object],
        signatures: tuple[Any, ...],
        directory: Callable[[], Path | None],
    ) -> None:
        self._kept = {_types(signature) for signature in signatures}
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._directory = directory
        self._seen: set[object] = set()
        self._held: dict[object, contextlib.ExitStack] = {}

    @cached_property
    def _files(self) -> Files | None:
        """The files of the cache, or None if no directory is configured or it cannot be used."""
        found = self._directory()
        if found is None:
            return None
        try:
            return Files(usable_directory(found))
        except UnsafeDirectoryError as error:
            warnings.warn(
                f"the kernel cache {str(found)!r} is not used: {error}. Set {VARIABLE} to a "
                "directory that only you can write to, or to an empty string for no cache",
                stacklevel=2,
            )
        except OSError:
            pass
        return None

    @property
    def cache_path(self) -> str | None:
        """The path of the cache directory, or None if there is no cache."""
        return None if self._files is None else str(self._files.directory)

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Return whether there is an undamaged file for a signature."""
        if self._files is None:
            return False
        if _types(sig) not in self._seen:
            name = self._file_name(sig, target_context.codegen())
            if self._files.read(name) is not None:
                self._seen.add(_types(sig))
        return _types(sig) in self._seen

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature, or None if it has to be compiled.

        If the result is None and the code will be saved, the lock of its file is held until
        `save_overload` is called. Other processes then wait instead of compiling the same code.
        """
        if self._files is None or _types(sig) not in self._kept:
            return None
        # release the lock of an interrupted or failed compilation, for which this call would wait
        self._held.pop(_types(sig), contextlib.ExitStack()).close()
        name = self._file_name(sig, target_context.codegen())
        found = self._load(name, target_context)
        if found is not None:
            return found
        stack = contextlib.ExitStack()
        if not stack.enter_context(self._files.locked(name)):
            stack.close()
            return None
        # another process may have compiled it meanwhile
        found = self._load(name, target_context)
        if found is not None:
            stack.close()
            return found
        self._held[_types(sig)] = stack
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code of a signature."""
        if self._files is None or _types(sig) not in self._kept:
            return
        with self._held.pop(_types(sig), contextlib.ExitStack()):
            if (
                any(not lifted.can_cache for lifted in data.lifted)
                or data.library.has_dynamic_globals
            ):
                return
            try:
                body = dumps((_external(data.library), data._reduce()))
            except Exception:  # noqa: BLE001 - whatever numba cannot keep is compiled again
                return
            self._files.write(self._file_name(sig, data.codegen), body)

    def _load(self, name: str, target_context: Any) -> Any:
        assert self._files is not None
        body = self._files.read(name)
        if body is None:
            return None
        try:
            external, parts = pickle.loads(body)
            # Numba's own cache calls `target_context.refresh()`. This is the part of it that is
            # needed here; the rest takes half a second for imports that only a compilation needs.
            # Code that refers to a missing symbol would end the process.
            rtsys.initialize(target_context)
            if not all(map(address_of_symbol, external)):
                target_context.refresh()
                if not all(map(address_of_symbol, external)):
                    return None
            return CompileResult._rebuild(target_context, *parts)
        except Exception:  # noqa: BLE001 - whatever numba cannot use is compiled again
            return None

    def _file_name(self, sig: Any, codegen: Any) -> str:
        parts = repr((str(_types(sig)), codegen.magic_tuple(), environment(), SOURCES))
        return f"{self._name}-{hashlib.sha256(parts.encode()).hexdigest()[:40]}.kernel"

    def enable(self) -> None:
        """Do nothing, because the environment decides whether there is a cache."""

    def disable(self) -> None:
        """Do nothing, because the environment decides whether there is a cache."""

    def flush(self) -> None:
        """Do nothing, because outdated files have other names and are not read."""
