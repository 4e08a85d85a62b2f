"""Generated data: many features with few samples, and rows that belong to subjects."""

from __future__ import annotations

import numpy as np

from pipelines.paper.data import DataSet

N_GROUPS, N_COPIES = 10, 6


def wide(n_samples: int, n_features: int, seed: int, signal: float = 1.0) -> DataSet:
    """Return data of ten independent latent variables, each with six noisy copies as features.

    The logit of the class is `signal` times the sum of the latent variables. Copy c of latent
    variable g is feature ``6 g + c``; the other features are noise.

    Examples
    --------
    >>> wide(500, 100, 0).x.shape
    (500, 100)
    """
    rng = np.random.default_rng((seed, n_samples, n_features))
    latent = rng.normal(size=(n_samples, N_GROUPS))
    x = rng.normal(size=(n_samples, n_features))
    copies = N_GROUPS * N_COPIES
    x[:, :copies] = np.repeat(latent, N_COPIES, axis=1) + 0.5 * x[:, :copies]
    chance = 1 / (1 + np.exp(-signal * latent.sum(axis=1)))
    y = (rng.uniform(size=n_samples) < chance).astype(np.int64)
    return DataSet(f"wide-{n_features}-{seed}", x, y, np.zeros(n_features, bool))


def groups_found(ranking: list[int]) -> int:
    """Return the number of latent variables of `wide` with a copy in a ranking.

    Examples
    --------
    >>> groups_found([0, 5, 6, 60])
    2
    """
    return len({feature // N_COPIES for feature in ranking if feature < N_GROUPS * N_COPIES})


def grouped(seed: int, n_subjects: int = 40, n_rows: int = 250, n_noise: int = 20) -> DataSet:
    """Return rows of subjects: feature 0 depends on the class, the others on the subject only.

    All rows of a subject have the same class. The noise of a subject therefore identifies the class
    in rows of this subject, but not in rows of other subjects.

    Examples
    --------
    >>> grouped(0).x.shape
    (10000, 21)
    """
    rng = np.random.default_rng((seed, n_subjects, n_rows))
    subject = np.repeat(np.arange(n_subjects), n_rows)
    y = rng.permutation(np.arange(n_subjects) % 2)[subject]
    x = rng.normal(size=(n_subjects, n_noise + 1))[subject]
    x += 0.1 * rng.normal(size=x.shape)
    x[:, 0] = 0.8 * y + rng.normal(size=len(y))
    return DataSet(f"grouped-{seed}", x, y.astype(np.int64), np.zeros(n_noise + 1, bool), subject)
