"""Where a search restarted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def restarts(epochs: NDArray[np.int64]) -> list[int]:
    """Return the positions of the picks before which a restart is marked.

    Of several restarts with a single pick each, only the first is marked.

    Examples
    --------
    >>> restarts(np.array([0, 0, 1, 1, 2, 3]))
    [2, 4]
    """
    starts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist()]
    sizes = np.diff([*starts, len(epochs)]).tolist()
    neighbours = zip(starts[1:], sizes, sizes[1:], strict=False)
    return [start for start, before, own in neighbours if before > 1 or own > 1]
