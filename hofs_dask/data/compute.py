"""The one call of Dask's `compute`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import dask.base
import dask.config


def compute(*tasks: Any, here: bool = False) -> tuple[Any, ...]:
    """What the tasks return, on the current client or Dask's configured scheduler, or here.

    Here, in this thread, is where tasks belong whose data is in memory and would only travel. A
    client warns of a graph of more than 10 MB. Ours hold what they need and hold it once: data
    that is in memory, or the context of a pass.

    Examples
    --------
    >>> from dask.delayed import delayed
    >>> compute(delayed(1), delayed(2))
    (1, 2)
    """
    # the setting must not be made before distributed has made its own: it would take their place
    quiet = (
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "100 GiB"})
        if "distributed" in sys.modules and not here
        else nullcontext()
    )
    with quiet:
        result: tuple[Any, ...] = dask.base.compute(*tasks, scheduler="sync" if here else None)
    return result
