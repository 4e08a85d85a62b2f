"""All mutable state of the driver: one `Session` per Dask client, and objects that are kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass
class Session:
    """The state that the driver keeps for a Dask client.

    Attributes
    ----------
    last
        Futures of the last computation. They are released only after the next tasks were submitted,
        because a release sends a message, after which the client sends nothing for 10 ms.
    compiled
        Modules of reductions whose kernels the workers have compiled.
    workers
        Memory limit and resident memory of the workers by address, for each combination of worker
        addresses and compiled modules.
    """

    last: list[Future[Any]] = field(default_factory=list)
    compiled: frozenset[str] = frozenset()
    workers: dict[tuple[tuple[str, ...], frozenset[str]], dict[str, tuple[int, int]]] = field(
        default_factory=dict
    )


#: Maximum number of objects that `keep` keeps: one per fold of a cross-validation, and some more.
MOST_KEPT = 12


@dataclass
class Kept:
    """Objects that this process keeps for later calls, the latest last.

    Attributes
    ----------
    process
        Id of the process that made the objects. A fork must not remove what its parent uses.
    lock
        Held while an object is looked up or made.
    by_key
        The objects by key.
    """

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_key: dict[str, Any] = field(default_factory=dict)


_KEPT: list[Kept] = []
_SESSIONS: WeakKeyDictionary[Client, Session] = WeakKeyDictionary()


def session(client: Client) -> Session:
    """Return the state that the driver keeps for a Dask client."""
    return _SESSIONS.setdefault(client, Session())


def keep(key: str, make: Callable[[], Any]) -> Any:
    """Return the object that is kept for a key; if there is none, make it and keep it.

    At most `MOST_KEPT` objects are kept. The least recently used object is dropped first.

    Examples
    --------
    >>> first = keep("a", lambda: [1])
    >>> keep("a", lambda: [2]) is first
    True
    """
    if not _KEPT or _KEPT[0].process != os.getpid():
        _KEPT[:] = [Kept()]
    (state,) = _KEPT
    with state.lock:
        found = state.by_key.pop(key, None)
        found = make() if found is None else found
        state.by_key[key] = found
        while len(state.by_key) > MOST_KEPT:
            del state.by_key[next(iter(state.by_key))]
    return found


def reset() -> None:
    """Remove the state of all clients, and everything that is kept.

    Examples
    --------
    >>> reset()
    """
    _SESSIONS.clear()
    _KEPT.clear()
