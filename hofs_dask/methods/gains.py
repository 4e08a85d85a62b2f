"""What rows gain in the posterior of one pick or of none: on counts, with no scan over samples.

Samples of equal codes have equal posteriors. The codes of one pick and of a candidate make few
cells, and how many samples of each fold and class are in each of them is known before the round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hofs_dask.engine.posteriors import KINDS

#: Cells that are worked on at a time, about.
BLOCK = 2**18


def gains_on_counts(
    counts: np.ndarray,
    posterior: np.ndarray,
    candidates: Mapping[str, np.ndarray],
    linear: Sequence[str],
    numbers: np.ndarray,
    logistic: bool,
) -> np.ndarray:
    """What `posteriors.POSTERIOR_GAINS` finds for all samples, (feature, kind).

    Parameters
    ----------
    counts
        Samples (feature, fold, code of the pick, class, code), of one code where there is no pick.
    posterior
        Logs of the class probabilities before, (fold, class, code of the pick), not normalised.
    candidates, linear
        The rows of every candidate and the kinds of linear ones, as the reduction is given them.
    numbers
        The number of each code of the pick; one where there is no pick.
    logistic
        The density of linear rows.
    """
    n_features = len(counts)
    n_samples = int(counts[0].sum())
    posterior = posterior - np.logaddexp.reduce(posterior, axis=1)[:, None]
    before = posterior.transpose(0, 2, 1)[None, :, :, :, None]  # (1, fold, pick, class, 1)
    gain = np.zeros((n_features, len(KINDS)))
    step = max(1, BLOCK // counts[0].size)
    for start in range(0, n_features, step):
        some = slice(start, start + step)
        own = {name: array[some] for name, array in candidates.items()}
        n = counts[some].astype(np.float64)
        of_cell = n.sum(axis=3)
        for kind, logs in _rows(own, linear, numbers, logistic):
            after = before + logs
            top = after.max(axis=3)
            after -= top[:, :, :, None]
            total = np.log(np.exp(after, out=after).sum(axis=3))
            total += top
            found = (n * logs).sum(axis=(1, 2, 3, 4)) - (of_cell * total).sum(axis=(1, 2, 3))
            gain[some, KINDS.index(kind)] = found / n_samples
    for kind in KINDS[1:]:
        parents = candidates["pair_parents" if kind == "pair" else "parents"]
        gain[:, KINDS.index(kind)] *= (parents >= 0).any(axis=1)
    return gain


def _rows(
    own: Mapping[str, np.ndarray], linear: Sequence[str], numbers: np.ndarray, logistic: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """What each kind adds to the logs, (feature, fold, code of the pick, class, code)."""
    yield "table", np.log(own["table"])[:, :, None]
    for place, kind in enumerate(linear):
        slopes, shifts, scales = (
            own[name][:, place][:, :, None] for name in ("slopes", "shifts", "scales")
        )
        # (feature, fold, code of the pick, class): what of the signal the pick decides
        centre = shifts + slopes[..., 0] * numbers[:, None]
        values = own["values"][:, None, None, None]
        signal = np.abs(scales[..., None] * (values - centre[..., None]))
        density = -signal - 2 * np.log1p(np.exp(-signal)) if logistic else -0.5 * signal**2
        density = np.where(np.isnan(values), 0.0, density)
        yield kind, np.log(own["linear_table"][:, place])[:, :, None] + density
    if own["pair_parents"].shape[1]:
        m, _, n_folds, n_classes, _ = own["pair_table"].shape
        tables = own["pair_table"].reshape(m, n_folds, n_classes, len(numbers), -1)
        yield "pair", np.log(tables).transpose(0, 1, 3, 2, 4)
