"""Time, memory and accuracy of feature selection by this and other packages, side by side.

Every run is a process of its own. The other packages may be in another environment, for example::

    python -m venv others
    others/bin/pip install mrmr_selection fast-select mlxtend Boruta lightgbm scikit-learn
    python -m pipelines.versus --others others/bin/python

Every run is added to ``pipelines/results/versus.json``, with the machine and the date. The table
of all runs is printed. ``--only`` and ``--package`` repeat some of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

#: Samples, features and picks of each size.
SIZES = {
    "1000 x 50": (1000, 50, 10),
    "20 000 x 200": (20_000, 200, 20),
    "200 000 x 500": (200_000, 500, 20),
    "500 x 20 000": (500, 20_000, 50),
}
RESULTS = Path(__file__).parent / "results" / "versus.json"
#: Features that determine the target, and noisy copies of each.
N_TRUE, N_COPIES = 10, 2
#: A function of data, target and number of features that returns the positions of the chosen ones.
Select = Callable[[np.ndarray, np.ndarray, int], Any]


def make_data(n_samples: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features and a target of two classes, which depends on ten of them.

    Examples
    --------
    >>> x, y = make_data(100, 40)
    >>> x.shape, sorted(set(y.tolist()))
    ((100, 40), [0, 1])
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_features))
    true = x[:, :N_TRUE]
    for copy in range(1, N_COPIES + 1):
        some = slice(copy * N_TRUE, (copy + 1) * N_TRUE)
        x[:, some] = true + 0.7 * x[:, some]
    logit = true @ np.linspace(1.5, 0.5, N_TRUE)
    y = (rng.random(n_samples) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return x[:, rng.permutation(n_features)], y


def _ours(method: str) -> Select:
    def select(x: np.ndarray, y: np.ndarray, k: int) -> Any:
        import hofs_dask

        return hofs_dask.select(x, y, k, method=method, progress=False).indices

    return select


def _mrmr_selection(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    import pandas as pd

    select = import_module("mrmr").mrmr_classif
    return select(X=pd.DataFrame(x), y=pd.Series(y), K=k, show_progress=False)


def _fast_select(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    # it takes codes
    edges = np.quantile(x, np.arange(0.2, 0.9, 0.2), axis=0)
    codes = np.stack([np.searchsorted(e, own) for e, own in zip(edges.T, x.T, strict=True)], axis=1)
    search = import_module("fast_select").mRMR(n_features_to_select=k)
    return search.fit(codes, y).top_features_


def _mutual_info(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    from sklearn.feature_selection import mutual_info_classif

    return np.argsort(-mutual_info_classif(x, y, random_state=0))[:k]


def _mlxtend(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    search = import_module("mlxtend.feature_selection").SequentialFeatureSelector
    return search(LogisticRegression(), k_features=k, cv=2, n_jobs=2).fit(x, y).k_feature_idx_


def _boruta(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_jobs=2, max_depth=5, random_state=0)
    boruta = import_module("boruta").BorutaPy
    found = boruta(forest, n_estimators="auto", max_iter=20, random_state=0).fit(x, y)
    return np.argsort(found.ranking_, kind="stable")[:k]


def _lightgbm(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    model = (
        import_module("lightgbm")
        .LGBMClassifier(importance_type="gain", n_jobs=2, verbose=-1)
        .fit(x, y)
    )
    return np.argsort(-model.feature_importances_)[:k]


#: The packages, and whether they are this one.
PACKAGES: dict[str, tuple[Select, bool]] = {
    "hofs_dask jmi": (_ours("jmi"), True),
    "hofs_dask mrmr": (_ours("mrmr"), True),
    "hofs_dask hofs": (_ours("hofs"), True),
    "mrmr_selection": (_mrmr_selection, False),
    "fast-select mRMR": (_fast_select, False),
    "mutual_info_classif": (_mutual_info, False),
    "LightGBM gain": (_lightgbm, False),
    "Boruta": (_boruta, False),
    "mlxtend forward": (_mlxtend, False),
}


def measure(package: str, folder: Path, k: int, limit: float) -> dict[str, float]:
    """Return the seconds, the peak memory above the data, and the test accuracy of a package.

    The first call, ``cold``, imports the package and may compile it. It is called again while less
    than half of the time limit has passed. ``processor`` are seconds of all threads of a warm call.
    """
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    select, seconds, processor = PACKAGES[package][0], [], []
    for _ in range(6):
        start, used = time.perf_counter(), time.process_time()
        chosen = select(x, y, k)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        if sum(seconds) + max(seconds) > limit / 2:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "cold": seconds[0],
        "warm": min(seconds[1:], default=seconds[0]),
        "processor": min(processor[1:], default=processor[0]),
        "MB": peak / 1024,
        "accuracy": _accuracy(x, y, np.asarray(chosen, int), folder),
    }


def _accuracy(x: np.ndarray, y: np.ndarray, chosen: np.ndarray, folder: Path) -> float:
    from sklearn.linear_model import LogisticRegression

    test_x, test_y = np.load(folder / "test_x.npy", mmap_mode="r"), np.load(folder / "test_y.npy")
    rows = slice(0, 20_000)
    model = LogisticRegression(max_iter=500).fit(x[rows][:, chosen], y[rows])
    return float(model.score(test_x[:, chosen], test_y))


def _child(python: str, package: str, folder: Path, k: int, limit: float) -> dict[str, Any]:
    """Return what a process of its own measures, or why it did not."""
    command = [python, str(Path(__file__)), "--child", package, str(folder), str(k), str(limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:.0f} s"}
    except OSError as error:
        return {"failed": str(error)}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def as_text(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the table in Markdown.

    Examples
    --------
    >>> print(as_text({"1000 x 50": {"hofs_dask jmi": {"failed": "over 9 s"}}}))
    | size | package | cold | warm | processor | memory | accuracy |
    |---|---|---|---|---|---|---|
    | 1000 x 50 | hofs_dask jmi | over 9 s | | | | |
    """
    lines = [
        "| size | package | cold | warm | processor | memory | accuracy |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, package in itertools.product(found, PACKAGES):
        own = found[size].get(package)
        if own is not None:
            cells = [size, package]
            if "failed" in own:
                cells += [own["failed"], "", "", "", ""]
            else:
                cells += [f"{own[each]:.3g} s" for each in ("cold", "warm", "processor")]
                cells += [f"{own['MB']:.0f} MB", f"{own['accuracy']:.3f}"]
            lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines)


def machine() -> str:
    """Return the processor, the number of its cores and the date."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
        name = ", ".join(sorted(names))
    except OSError:  # not Linux
        name = ""
    today = dt.datetime.now(dt.UTC).date()
    return f"{name or platform.processor()}, {os.cpu_count()} cores, {today}"


def main() -> None:
    """Run all packages on all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--others", default=sys.executable, help="Python of the other packages")
    parser.add_argument("--only", action="append", choices=list(SIZES), help="a size; repeatable")
    parser.add_argument("--package", action="append", choices=list(PACKAGES), help="repeatable")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds per process")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with all runs")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        package, folder, k, limit = given.child
        print(json.dumps(measure(package, Path(folder), int(k), float(limit))))
        return
    sizes = {size: SIZES[size] for size in given.only or SIZES}
    found = run(sizes, given.package or [*PACKAGES], given.others, given.limit, given.results)
    print(as_text(found))


def run(
    sizes: dict[str, tuple[int, int, int]],
    packages: list[str],
    others: str,
    limit: float,
    results: Path,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Run packages on data of some sizes; return all runs, which are in the file of results.

    ``others`` is the Python of the other packages, and ``limit`` are the seconds of a process.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    if results.exists():
        found = json.loads(results.read_text())
    for size, (n_samples, n_features, k) in sizes.items():
        with tempfile.TemporaryDirectory() as name:
            folder, n_test = Path(name), min(n_samples, 20_000)
            x, y = make_data(n_samples + n_test, n_features)
            for label, some in (("", slice(n_test, None)), ("test_", slice(0, n_test))):
                np.save(folder / f"{label}x.npy", x[some])
                np.save(folder / f"{label}y.npy", y[some])
            del x, y
            for package in packages:
                python = sys.executable if PACKAGES[package][1] else others
                own = _child(python, package, folder, k, limit) | {"machine": machine()}
                found.setdefault(size, {})[package] = own
                print(size, package, own, file=sys.stderr, flush=True)
                results.write_text(json.dumps(found, indent=1) + "\n")
    return found


if __name__ == "__main__":
    main()
