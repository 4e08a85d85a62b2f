"""Query the workers for their addresses, memory and versions, and compile kernels on them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dask.base
import dask.config
import dask.system
import psutil
from dask.utils import format_bytes

from hofs_dask.kernels._jit import compile_kernels, kernels_in, missing
from hofs_dask.scheduling.compute import aside, current_client
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.scheduling.session import session
from hofs_dask.scheduling.waits import StrandedError, ask, gather, threads_of_workers

if TYPE_CHECKING:
    from distributed import Client

    from hofs_dask.engine.reduction import Request

#: Maximum number of queries of the workers. A query is repeated if a worker is lost during it.
ATTEMPTS = 5


class _LostError(Exception):
    """A worker was lost during a query."""


#: Approximate memory of a worker before a scan: its libraries and compiled kernels.
RESIDENT = 340 * 2**20

#: Bytes of free memory that the malloc of a worker keeps instead of returning them to the system.
#: Arrays up to this size are allocated from the kept memory. With Dask's default of 64 KiB, malloc
#: maps new pages for every array of 128 KiB or more, and the first access to new pages takes longer
#: than reading a chunk into them.
KEPT_MEMORY = 32 * 2**20

#: Packages that must have the same version in all processes, because results depend on them.
SAME_VERSIONS = ("hofs-dask", "dask", "distributed", "numpy", "numba", "zarr")


@dataclass(frozen=True)
class Worker:
    """A process that runs tasks: a Dask worker or, without a client, this process."""

    address: str  # empty for this process
    n_threads: int
    memory_limit: int  # bytes
    resident: int  # bytes in use before a scan


def current_workers(scan: Sequence[Request] = (), *, anew: bool = False) -> tuple[Worker, ...]:
    """Return the workers of the current Dask client, sorted by address.

    Without a client, the only worker is this process.

    Parameters
    ----------
    scan
        Requests whose kernels the workers compile before their memory is measured, because compiled
        kernels stay in memory.
    anew
        Whether to query again the workers whose memory is known from an earlier query.

    Examples
    --------
    >>> (worker,) = current_workers()
    >>> worker.address
    ''
    """
    client = current_client()
    if client is None:
        if anew:
            _give_back()
        free = psutil.virtual_memory().available
        resident = _resident()
        return (Worker("", local_threads(), resident + PROCESS.chunks.nbytes + free, resident),)
    known = session(client)
    if anew:
        known.workers.clear()
    known.compiled |= _modules(scan)
    for _ in range(ATTEMPTS):
        # a new worker may have replaced one that was lost
        threads = threads_of_workers(client)
        with contextlib.suppress(_LostError):
            asked = (tuple(sorted(threads)), known.compiled)
            if asked not in known.workers:
                known.workers = {asked: _describe(client, *asked)}
            found = known.workers[asked]
            return tuple(Worker(each, threads[each], *found[each]) for each in sorted(threads))
    raise RuntimeError(
        f"workers were lost {ATTEMPTS} times while compiling kernels; see the logs of the workers "
        "for the reason"
    )


def kernels_to_compile(scan: Sequence[Request], skip: str = "") -> list[str]:
    """Return the names of the kernels that must be compiled before a scan.

    A kernel that an earlier call returned is not returned again, and the kernel ``skip`` is not
    returned. With a cluster, the kernel cache
    on the disk of this machine is checked, on the assumption that the workers use it too.

    Examples
    --------
    >>> kernels_to_compile([])
    []
    """
    modules = _modules(scan)
    names = {request.reduction.name for request in scan}
    if modules | names <= PROCESS.announced:
        return []
    client = current_client()
    if client is not None and modules <= session(client).compiled:
        return []
    PROCESS.announced |= modules | names  # looking up files takes longer than a short scan
    some: dict[str, tuple[str, ...]] = {}
    for module in modules:
        some |= getattr(importlib.import_module(module), "KERNELS_OF", {})
    found = [
        name
        for name in missing(_kernels(modules))
        if name not in PROCESS.announced
        and name != skip
        and (name not in some or names & set(some[name]))
    ]
    PROCESS.announced.update(found)
    return found


def _modules(scan: Iterable[Request]) -> frozenset[str]:
    """Return the names of the modules that define the reductions of a scan."""
    return frozenset(request.reduction.chunk.__module__ for request in scan)


def _kernels(modules: Iterable[str]) -> list[Any]:
    """Return the kernels that the reductions of these modules call.

    Each module lists the modules of these kernels in ``KERNEL_MODULES``. A module of a user may
    have no such list.
    """
    found = (importlib.import_module(module) for module in modules)
    named = (getattr(module, "KERNEL_MODULES", ()) for module in found)
    return kernels_in(dict.fromkeys(each for modules in named for each in modules))


def memory_limits() -> list[tuple[int, int]]:
    """Return the memory limit and the number of threads of each worker, from the scheduler.

    Unlike `current_workers`, this does not query the workers and compiles no kernels. A worker
    without a memory limit has the limit 0.

    Examples
    --------
    >>> ((limit, n_threads),) = memory_limits()
    >>> limit > 0 < n_threads
    True
    """
    client = current_client()
    if client is None:
        memory = psutil.virtual_memory().available + psutil.Process().memory_info().rss
        return [(memory, local_threads())]
    return list(ask(client, client.run_on_scheduler, _limits).values())


def check_cluster(client: Client) -> None:
    """Raise a RuntimeError if a package has another version on the cluster than here.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     check_cluster(client)
    """
    here = _versions()
    places: dict[str, dict[str, str]] = {
        "the scheduler": ask(client, client.run_on_scheduler, _versions)
    }
    on_workers = ask(client, client.run, _versions)
    places.update({f"worker {address}": found for address, found in on_workers.items()})
    differing = [
        f"{package} {found[package]} on {place}, {here[package]} here"
        for place, found in places.items()
        for package in SAME_VERSIONS
        if found[package] != here[package]
    ]
    if differing:
        raise RuntimeError(
            "the cluster has other versions than this process: " + "; ".join(differing[:8]) + ". "
            "Install the same versions everywhere, for example from one lock file"
        )


def _check_limits(client: Client) -> None:
    """Raise a MemoryError if a worker is too small to import the package and compile kernels.

    Dask would pause, kill and restart such a worker forever.
    """
    for address, (limit, _) in ask(client, client.run_on_scheduler, _limits).items():
        if 0 < limit < RESIDENT:
            raise MemoryError(
                f"worker {address} has a memory limit of {format_bytes(limit)}, less than the "
                f"{format_bytes(RESIDENT)} that its libraries and compiled kernels take; give each "
                "worker 512 MiB or more"
            )


def local_threads() -> int:
    """Return the number of threads of this process that Dask would use without a client.

    Examples
    --------
    >>> local_threads() > 0
    True
    """
    scheduler = dask.config.get("scheduler", None)
    if isinstance(scheduler, str) and scheduler.startswith("sync"):
        return 1
    pool: Any = dask.config.get("num_workers", None)
    return int(pool or dask.system.CPU_COUNT)


def _describe(
    client: Client, addresses: tuple[str, ...], modules: frozenset[str]
) -> dict[str, tuple[int, int]]:
    """Return the memory limit and the resident memory of each worker, in bytes, by address.

    This also compares versions and compiles the kernels of ``modules`` on the workers.
    """
    _check_limits(client)
    try:
        check_cluster(client)
    except OSError as error:  # a worker was lost during the query
        raise _LostError from error
    # `client.run` is not used, because compiling in the event loop would delay the heartbeats
    prepared = [
        client.submit(_prepare, modules, key=f"prepare-{uuid4()}", workers=[address], priority=10)
        for address in addresses
    ]
    try:
        with aside():
            found = gather(client, prepared, strict=True)
    except StrandedError as error:
        raise _LostError from error
    finally:
        for future in prepared:  # otherwise a stored traceback could keep them alive
            future.release()
    return dict(zip(addresses, found, strict=True))


def _prepare(modules: Iterable[str]) -> tuple[int, int]:
    from distributed import get_worker

    # tasks import this module, so its memory counts as resident
    import hofs_dask.engine.scanning  # noqa: F401

    compile_kernels(_kernels(modules))
    _give_back()
    limit = get_worker().memory_manager.memory_limit
    return int(limit or psutil.virtual_memory().total), _resident()


def _resident() -> int:
    """Return the resident bytes of this process, without cached chunks, which can be dropped."""
    rss: int = psutil.Process().memory_info().rss
    return max(rss - PROCESS.chunks.nbytes, 0)


def _give_back() -> None:
    """Return free memory to the system, so that garbage does not count as resident memory."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc
        if trim is not None:
            trim(0)


def _limits(dask_scheduler: Any) -> dict[str, tuple[int, int]]:
    """Return the memory limit (0 if there is none) and the number of threads of each worker.

    This function runs on the scheduler.
    """
    workers = dask_scheduler.workers.items()
    return {address: (each.memory_limit or 0, each.nthreads) for address, each in workers}


def _versions() -> dict[str, str]:
    return {package: version(package) for package in SAME_VERSIONS}
