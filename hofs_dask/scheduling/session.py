"""What the driver remembers about each Dask client. No other module of the driver has state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass
class Session:
    """What is remembered about a client.

    Attributes
    ----------
    last
        What it computed last. Its release is a message, and a client sends no other one for 10 ms
        after it: so it waits until the next tasks are on their way, which would wait themselves.
    compiled
        Modules of reductions whose kernels its workers have compiled.
    workers
        The memory limit and the resident memory of its workers by address, for the addresses and
        the compiled modules that they were asked with.
    """

    last: list[Future[Any]] = field(default_factory=list)
    compiled: frozenset[str] = frozenset()
    workers: dict[tuple[tuple[str, ...], frozenset[str]], dict[str, tuple[int, int]]] = field(
        default_factory=dict
    )


_SESSIONS: WeakKeyDictionary[Client, Session] = WeakKeyDictionary()


def session(client: Client) -> Session:
    """Return what is remembered about a client."""
    return _SESSIONS.setdefault(client, Session())


def reset() -> None:
    """Forget what is remembered about all clients.

    Examples
    --------
    >>> reset()
    """
    _SESSIONS.clear()
