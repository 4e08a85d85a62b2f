"""The evaluation selects inside folds, reuses stored folds, and ranks methods."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from pipelines.paper import protocol as page
from pipelines.paper.data import DataSet
from pipelines.quality import generated, models, protocol, regression
from pipelines.quality.__main__ import main
from pipelines.quality.protocol import Run, fold_errors, folds, reduced, select, sizes, table


def made_up(n_samples=120, n_features=12):
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 2
    x = rng.normal(size=(n_samples, n_features))
    x[:, 3] += 3 * y
    return DataSet("toy", x, y.astype(np.int64), np.zeros(n_features, bool))


@pytest.mark.parametrize("module", [models, protocol, regression])
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


def test_groups__stay_in_one_fold_and_cross_fit():
    data = models.grouped(0, n_subjects=30, n_rows=40, n_noise=10)
    for train, test in folds(data):
        assert not set(data.groups[train]) & set(data.groups[test])
    assert len(folds(data)) == 5
    train = folds(data)[0][0]
    assert select(data, train, "hofs", 3)[0] == 0
    assert select(replace(data, groups=None), train, "hofs", 3)[0] != 0
    assert page.select(data, train, ["hofs"])["hofs"]["features"][0] == 0


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


def test_generated__prints_every_seed_and_the_means():
    words = ["--features", "80", "--seeds", "2", "--picks", "10", "--methods", "jmi,mim"]
    done = CliRunner().invoke(generated.main, words)
    assert done.exit_code == 0, done.output
    assert "seed 0: jmi " in done.output
    assert "seed 1: jmi " in done.output
    assert "| mim | " in done.output
    (jmi,) = generated.evaluate_wide(80, 0, ["jmi"], 10)
    assert jmi[0] >= 5
    assert jmi[2] > 0.7


def test_regression__ranks_the_true_features_first():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6 + regression.N_NOISE))
    y = x[:, 1] + np.abs(x[:, 4]) + 0.1 * rng.normal(size=300)
    table = regression.Table(x, y, np.zeros(x.shape[1], bool))
    for way in ("hofs, 8 classes", "hofs, 16 classes", "jmi, 8 classes"):
        assert set(regression.select(table, np.arange(300), way, 2)) == {1, 4}
    # a line does not see |x4|
    linear = regression.select(table, np.arange(300), "hofs sum, gaussian, ranks", 1)
    assert linear == [1]
    assert regression.evaluate(table, "hofs, 8 classes")["forest"] < 0.2


def test_regression__loads_a_set_with_noise():
    table = regression.load("diabetes")
    assert table.x.shape == (442, 10 + regression.N_NOISE)
    assert not table.nominal.any()
