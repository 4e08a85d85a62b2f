"""The state that the driver keeps per Dask client. No other module of the driver has state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass
class Session:
    """The state kept for a client.

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


_SESSIONS: WeakKeyDictionary[Client, Session] = WeakKeyDictionary()


def session(client: Client) -> Session:
    """Return the state kept for a client."""
    return _SESSIONS.setdefault(client, Session())


def reset() -> None:
    """Remove the state of all clients.

    Examples
    --------
    >>> reset()
    """
    _SESSIONS.clear()
