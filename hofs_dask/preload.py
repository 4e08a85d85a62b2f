"""Prepare Dask workers when they start: ``dask worker --preload hofs_dask.preload``.

While a worker connects to the scheduler, a thread imports the modules that tasks need and loads the
compiled kernels. Without this module, the first tasks do this.
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

from hofs_dask.engine.cluster import KEPT_MEMORY
from hofs_dask.kernels._jit import all_kernels, compile_kernels

if TYPE_CHECKING:
    from distributed import Worker

#: Modules whose functions are tasks.
TASKS = ("hofs_dask.engine.scanning", "hofs_dask.encoding.encode")

#: Dask settings for the workers of a cluster; set them before the cluster starts.
WORKER_SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": KEPT_MEMORY,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": KEPT_MEMORY,
    "distributed.nanny.pre-spawn-environ.NUMBA_NUM_THREADS": 1,
    "distributed.worker.preload": [__name__],
}


def dask_setup(_worker: Worker) -> None:
    """Import the modules of tasks and load or compile the kernels in a thread. Called by Dask."""
    threading.Thread(target=_prepare, name="hofs-dask-preload", daemon=True).start()


def _prepare() -> None:
    for module in TASKS:
        importlib.import_module(module)
    compile_kernels(all_kernels())
