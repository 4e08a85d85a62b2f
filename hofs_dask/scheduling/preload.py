"""Loads the kernels when a Dask worker starts.

``dask worker --preload hofs_dask.scheduling.preload``

The first scan then does not wait for them. It runs in a thread of its own, while the worker
connects to the scheduler.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hofs_dask.kernels._jit import all_kernels, compile_kernels

if TYPE_CHECKING:
    from distributed import Worker

#: The name of this module, as Dask's setting ``distributed.worker.preload`` takes it.
PRELOAD = __name__


def dask_setup(_worker: Worker) -> None:
    """Start loading the kernels, or compiling those that are not on disk; called by Dask."""
    thread = threading.Thread(
        target=lambda: compile_kernels(all_kernels()), name="load-kernels", daemon=True
    )
    thread.start()
