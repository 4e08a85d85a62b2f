"""A preload of workers: SIGUSR1 makes a worker use all memory that it may use."""

from __future__ import annotations

import signal
import threading
import time

_held: list[bytearray] = []


def dask_setup(_worker: object) -> None:
    """Install the handler. Called by Dask."""
    signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=_grow, daemon=True).start())


def _grow() -> None:
    """Allocate until the nanny ends this process."""
    for _ in range(200):
        _held.append(bytearray(8 * 2**20))
        _held[-1][::4096] = b"1" * len(_held[-1][::4096])
        time.sleep(0.01)
