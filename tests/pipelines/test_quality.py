"""The evaluation selects inside folds, reuses stored folds, and ranks methods."""

import doctest

import numpy as np
import pytest
from click.testing import CliRunner

from pipelines.paper.data import DataSet
from pipelines.quality import models, protocol
from pipelines.quality.__main__ import main
from pipelines.quality.protocol import Run, fold_errors, folds, reduced, select, sizes, table


def made_up(n_samples=120, n_features=12):
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 2
    x = rng.normal(size=(n_samples, n_features))
    x[:, 3] += 3 * y
    return DataSet("toy", x, y.astype(np.int64), np.zeros(n_features, bool))


@pytest.mark.parametrize("module", [models, protocol])
def test_examples__run(module):
    assert doctest.testmod(module).failed == 0


def test_select__uses_only_the_given_rows():
    data = made_up()
    train = folds(data)[0][0]
    other = data.x.copy()
    other[np.setdiff1d(np.arange(120), train)] = 1e6
    changed = DataSet("toy", other, data.y, data.nominal)
    assert select(data, train, "jmi", 5) == select(changed, train, "jmi", 5)
    assert select(data, train, "jmi", 5)[0] == 3


def test_fold_errors__are_low_and_stored_by_tag(tmp_path):
    data = made_up()
    found = fold_errors(data, 0, Run("mim", "a"), tmp_path)
    assert all(error < 0.25 for error in found.values())
    assert fold_errors(data, 0, Run("mim", "b"), tmp_path) == found
    path = tmp_path / "toy" / "mim@a-0.json"
    path.write_text(path.read_text().replace(str(found["svm"]), "0.75"))
    assert fold_errors(data, 0, Run("mim", "a"), tmp_path)["svm"] == 0.75
    assert fold_errors(data, 0, Run("mim", "b"), tmp_path)["svm"] == found["svm"]


def test_reduced__has_6000_samples_and_three_folds():
    large = reduced(made_up(6500))
    assert large.n_samples == 6000
    assert len(folds(large)) == 3
    assert len(folds(made_up())) == 5
    assert sizes(made_up(n_features=43)) == [5, 10, 15, 20]


def test_table__ranks_by_error():
    errors = np.array([[0.1, 0.2]] * 6) + np.arange(6)[:, None] * np.array([0.01, 0.02])
    lines = table(errors, ["one", "two"], "svm").splitlines()
    assert lines[2] == "| one | 12.50 | 1.00 |  |"
    assert lines[3] == "| two | 25.00 | 2.00 | 0.0312 |"


def test_main__prints_tables_of_stored_results(tmp_path):
    data, folder = made_up(), tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "toy.npz", X=data.x, y=data.y, feature_kinds=np.full(12, "numeric"))
    words = ["--data", str(folder), "--cache", str(tmp_path / "cache")]
    empty = CliRunner().invoke(main, [*words, "--stored"])
    assert empty.exit_code == 1
    assert "run without --stored" in empty.output
    done = CliRunner().invoke(main, [*words, "--methods", "mim,jmi"])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(main, [*words, "--methods", "mim@before,jmi", "--stored"])
    assert again.output in done.output
    assert "| mim@before |" in again.output


def test_wide__has_copies_of_ten_latent_variables():
    data = models.wide(2000, 80, 0)
    r = np.corrcoef(data.x.T)
    assert r[0, 5] == pytest.approx(0.8, abs=0.04)  # 1 / (1 + 0.25)
    assert abs(r[0, 6]) < 0.1
    assert abs(r[0, 70]) < 0.1


def test_grouped__noise_belongs_to_subjects():
    data = models.grouped(0, n_subjects=10, n_rows=50)
    for subject in range(10):
        rows = data.groups == subject
        assert len(np.unique(data.y[rows])) == 1
        assert data.x[rows, 1].std() < 0.2 < data.x[rows, 0].std()
