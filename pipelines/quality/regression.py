"""Evaluate continuous targets: ``python -m pipelines.quality.regression``.

The ten sets were named before any of them was looked at. They are in scikit-learn, ``mlxtend``,
``statsmodels`` and ``ISLP`` (the sets of a textbook, James et al. 2023).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import click
import dask
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hofs_dask as hd
from pipelines.paper.protocol import SEED
from pipelines.paper.statistics import ranks, wilcoxon

#: Sets of ISLP and their targets.
ISLP = {
    "Hitters": "Salary",
    "College": "Apps",
    "Carseats": "Sales",
    "Credit": "Balance",
    "Wage": "wage",
    "Bikeshare": "bikers",
}
#: Other sets: the module and the function that loads them.
OTHERS = {
    "diabetes": ("sklearn.datasets", "load_diabetes"),
    "boston": ("mlxtend.data", "boston_housing_data"),
    "autompg": ("mlxtend.data", "autompg_data"),
    "randhie": ("statsmodels.datasets", "randhie"),
}
SETS = (*OTHERS, *ISLP)
#: Columns that are parts of the target, so that the others would not matter.
PARTS = {"Wage": ["logwage"], "Bikeshare": ["casual", "registered"]}
N_FOLDS, MOST_SAMPLES = 5, 3000
#: Noise columns that are added, so that there is something to leave out.
N_NOISE = 20
REGRESSORS: dict[str, Callable[[], Any]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 3, 11))),
    "5nn": lambda: make_pipeline(StandardScaler(), KNeighborsRegressor(5)),
    "forest": lambda: RandomForestRegressor(50, random_state=SEED),
}


@dataclass(frozen=True)
class Table:
    """Samples and a continuous target."""

    x: np.ndarray  # float64 (sample, feature)
    y: np.ndarray  # float64 (sample,)
    nominal: np.ndarray  # bool (feature,)


def read_table(frame: pd.DataFrame, target: str) -> Table:
    """Return a table without missing values; text becomes the number of its category.

    Examples
    --------
    >>> frame = pd.DataFrame({"a": ["p", "q", None], "b": [1, 2, 3], "y": [0.5, 1.5, 2.5]})
    >>> table = read_table(frame, "y")
    >>> table.x.tolist(), table.y.tolist(), table.nominal.tolist()
    ([[0.0, 1.0], [1.0, 2.0]], [0.5, 1.5], [True, False])
    """
    frame = frame.dropna()
    features = frame.drop(columns=target)
    nominal = np.array([not pd.api.types.is_numeric_dtype(kind) for kind in features.dtypes])
    columns = [
        np.unique(features[name].astype(str), return_inverse=True)[1] if text else features[name]
        for name, text in zip(features, nominal, strict=True)
    ]
    return Table(np.column_stack(columns).astype(float), frame[target].to_numpy(float), nominal)


def load(name: str) -> Table:
    """Return a set with 20 columns of noise, reduced to at most 3000 samples."""
    if name in ISLP:
        frame = import_module("ISLP").load_data(name).drop(columns=PARTS.get(name, []))
        table = read_table(frame.reset_index(drop=True), ISLP[name])
    else:
        module, function = OTHERS[name]
        found = getattr(import_module(module), function)
        if name == "randhie":
            table = read_table(found.load_pandas().data, "mdvis")
        else:
            x, y = found(return_X_y=True) if name == "diabetes" else found()
            x = x[:, ~np.isnan(x).all(axis=0)]
            kept = ~np.isnan(x).any(axis=1)
            table = Table(x[kept], y[kept].astype(float), np.zeros(x.shape[1], bool))
    rng = np.random.default_rng(SEED)
    rows = rng.permutation(len(table.y))[:MOST_SAMPLES]
    noise = rng.normal(size=(len(rows), N_NOISE))
    nominal = np.append(table.nominal, np.zeros(N_NOISE, bool))
    return Table(np.column_stack([table.x[rows], noise]), table.y[rows], nominal)


def quantile_classes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the quantile class of each value; equal values are in one class.

    Examples
    --------
    >>> quantile_classes(np.array([3.0, 1.0, 2.0, 4.0]), 2).tolist()
    [1, 0, 0, 1]
    """
    edges = np.unique(np.quantile(y, np.arange(1, n_classes) / n_classes, method="lower"))
    return np.unique(np.searchsorted(edges, y), return_inverse=True)[1]


def ranked(y: np.ndarray) -> np.ndarray:
    """Return the rank of each value, as a continuous target."""
    result: np.ndarray = np.unique(y, return_inverse=True)[1] + 0.5
    return result


#: Ways to select: the method, and the target that it is given with its kind.
WAYS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray], str]] = {
    "hofs, 8 classes": ("hofs", lambda y: y, "continuous"),
    "hofs, 4 classes": ("hofs", partial(quantile_classes, n_classes=4), "class"),
    "hofs, 16 classes": ("hofs", partial(quantile_classes, n_classes=16), "class"),
    "hofs, 32 classes": ("hofs", partial(quantile_classes, n_classes=32), "class"),
    "hofs sum, gaussian": (hd.HOFS("sum", source="gaussian"), lambda y: y, "continuous"),
    "hofs sum, gaussian, ranks": (hd.HOFS("sum", source="gaussian"), ranked, "continuous"),
    "jmi, 8 classes": ("jmi", lambda y: y, "continuous"),
    "mrmr, 8 classes": ("mrmr", lambda y: y, "continuous"),
}


def select(table: Table, rows: np.ndarray, way: str, n_features: int) -> list[int]:
    """Return the features that one of `WAYS` selects from some rows."""
    method, make, kind = WAYS[way]
    x, y = table.x[rows], make(table.y[rows])
    nominal = [f"x{column}" for column in np.flatnonzero(table.nominal)]
    with (
        dask.config.set(scheduler="synchronous"),
        TemporaryDirectory() as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # rare categories
        codes = hd.encode(x, y, f"{folder}/codes.zarr", nominal=nominal, target_kind=kind)
        found = hd.select(codes, None, n_features, method=method, progress=False)
    chosen: list[int] = found.indices.tolist()
    return chosen


def evaluate(table: Table, way: str) -> dict[str, float]:
    """Return 1 - R^2 on unseen samples by regressor, the mean over numbers of features and folds.

    The numbers are 2, 4, ... up to half of the features that are not noise.
    """
    most = max(2, (table.x.shape[1] - N_NOISE) // 2)
    errors: dict[str, list[float]] = {name: [] for name in REGRESSORS}
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=SEED).split(table.x):
        ranking = select(table, train, way, most)
        for size in range(2, most + 1, 2):
            columns = ranking[:size]
            own = np.ix_(train, columns), np.ix_(test, columns)
            for name, make in REGRESSORS.items():
                model = clone(make()).fit(table.x[own[0]], table.y[train])
                off = (model.predict(table.x[own[1]]) - table.y[test]) ** 2
                spread = (table.y[test] - table.y[train].mean()) ** 2
                errors[name].append(float(off.sum() / spread.sum()))
    return {name: float(np.mean(found)) for name, found in errors.items()}


@click.command()
@click.option("--sets", default=",".join(SETS), show_default=True)
def main(sets: str) -> None:
    """Compare ways to treat a continuous target by the errors of three regressors."""
    rows = []
    for name in sets.split(","):
        table = load(name)
        found = [evaluate(table, way) for way in WAYS]
        rows.append([[each[regressor] for regressor in REGRESSORS] for each in found])
        shape = f"{name}: {table.x.shape[0]} x {table.x.shape[1]}"
        click.echo(f"{shape}, {np.mean(rows[-1], axis=1).round(3).tolist()}", err=True)
    errors = np.array(rows)
    for i, regressor in enumerate(REGRESSORS):
        click.echo(f"| {regressor}, {len(errors)} sets | mean 1 - R^2 | mean rank | Wilcoxon p |")
        click.echo("|---|--:|--:|--:|")
        mean_ranks = ranks(errors[:, :, i]).mean(axis=0)
        for j, way in enumerate(WAYS):
            p = "" if j == 0 else f"{wilcoxon(errors[:, 0, i], errors[:, j, i]):.3g}"
            mean = errors[:, j, i].mean()
            click.echo(f"| {way} | {mean:.3f} | {mean_ranks[j]:.2f} | {p} |")


if __name__ == "__main__":
    main()
