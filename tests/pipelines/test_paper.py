"""The protocol of the paper uses only training rows, resumes, and reports its results."""

import doctest
import gzip
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import hofs_dask as hd
from hofs_dask.synthetic import heterogeneous_model, tree_information
from pipelines.paper import data as data_module
from pipelines.paper import models, page, printed, protocol, quality, runs, statistics
from pipelines.paper.__main__ import SECTIONS, main
from pipelines.paper.data import SETS, DataSet, Source, load
from pipelines.paper.protocol import RANKED, SHOWN, Split, errors, folds, judge, select, sizes
from pipelines.paper.quality import solve_row

MADE_UP = Path(__file__).parent / "openml"


def made_up(n_samples=120, n_features=12, seed=0, groups=None):
    """Three classes that depend on x3 and x5; x7 is a category."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 3
    x = rng.normal(size=(n_samples, n_features))
    x[:, 3] += y
    x[:, 5] += 2 * (y == 1)
    x[:, 7] = rng.integers(0, 3, n_samples)
    nominal = np.arange(n_features) == 7
    return DataSet("toy", x, y.astype(np.int64), nominal, groups)


@pytest.fixture
def folder(tmp_path):
    """A folder of data with one set in it."""
    toy = made_up()
    kinds = np.where(toy.nominal, "nominal", "numeric")
    np.savez(tmp_path / "toy.npz", X=toy.x, y=toy.y + 1, feature_kinds=kinds)
    return tmp_path


@pytest.mark.parametrize(
    "module", [data_module, models, page, printed, protocol, quality, runs, statistics]
)
def test_examples__run(module):
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


# data


def test_load__reads_a_folder(folder):
    found, toy = load("toy", folder), made_up()
    np.testing.assert_array_equal(found.x, toy.x)
    np.testing.assert_array_equal(found.y, toy.y)
    np.testing.assert_array_equal(found.nominal, toy.nominal)
    assert found.fingerprint == toy.fingerprint
    assert found.fingerprint != made_up(seed=1).fingerprint


def test_load__returns_groups_only_if_requested(folder):
    toy = made_up()
    codes = np.repeat(np.arange(30), 4) + 5
    kinds = np.full(toy.n_features, "numeric")
    np.savez(folder / "moles.npz", X=toy.x, y=toy.y, feature_kinds=kinds, molecule_code=codes)
    assert load("moles", folder).groups is None
    np.testing.assert_array_equal(load("moles-grouped", folder).groups, codes - 5)
    with pytest.raises(ValueError, match="'toy' has no groups; ask for 'toy'"):
        load("toy-grouped", folder)


def test_load__error_lists_the_data_sets(folder):
    with pytest.raises(FileNotFoundError, match=r"musk3.npz; the folder has toy. Give --data"):
        load("musk3", folder)
    with pytest.raises(ValueError, match="give one of lung, splice"):
        load("musk3", "openml")


def stored(home):
    """Store generated responses in the OpenML cache of scikit-learn."""
    arff = (MADE_UP / "splice.arff").read_bytes()
    description = (MADE_UP / "description.json").read_text()
    answers = {
        "api/v1/json/data/46": description.replace("CHECKSUM", hashlib.md5(arff).hexdigest()),
        "api/v1/json/data/features/46": (MADE_UP / "features.json").read_text(),
        "api/v1/json/data/qualities/46": (MADE_UP / "qualities.json").read_text(),
        "data/v1/download/46/splice.arff": arff.decode(),
    }
    for address, answer in answers.items():
        path = home / "openml" / "openml.org" / f"{address}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(answer.encode()))


def test_fetch__codes_a_stored_response(tmp_path, monkeypatch):
    stored(tmp_path)
    found = load("splice", "openml", data_home=str(tmp_path))
    # without the samples with an N and with a missing letter, and without the names
    assert found.x.shape == (10, 3)
    np.testing.assert_array_equal(found.x[:3], [[0, 1, 2], [1, 1, 2], [2, 1, 3]])
    np.testing.assert_array_equal(np.bincount(found.y), [4, 3, 3])
    assert found.nominal.all()
    monkeypatch.setitem(SETS, "splice", Source(46, nominal=True))
    whole = load("splice", "openml", data_home=str(tmp_path))
    # all letters: a missing one is the last code
    assert whole.x.shape == (12, 3)
    assert whole.x[9, 2] == whole.x[:, 2].max()


def test_sets__are_the_nine_of_every_table():
    for numbers in (printed.QUALITY, printed.ERRORS, printed.INFORMATION, printed.ARAE):
        assert list(numbers) == list(SETS)


# protocol


def test_sizes__go_up_to_all_features_or_a_hundred():
    assert sizes(made_up(n_features=12)) == [10]
    assert sizes(made_up(n_features=57)) == [10, 20, 30, 40, 50]
    assert sizes(made_up(n_features=130))[-1] == 100
    assert sizes(made_up(n_features=8)) == [8]


def test_folds__are_ten_stratified_and_reproducible():
    data = made_up()
    found = folds(data)
    assert len(found) == 10
    assert sorted(np.concatenate([test for _, test in found])) == list(range(120))
    for train, test in found:
        assert not set(train) & set(test)
        np.testing.assert_array_equal(np.bincount(data.y[test]), [4, 4, 4])
    again = folds(data)
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(found, again, strict=True))


def test_folds__leave_one_out_below_a_hundred_samples():
    assert [len(test) for _, test in folds(made_up(n_samples=99))] == [1] * 99
    assert len(folds(made_up(n_samples=100))) == 10


def test_folds__keep_groups_together():
    groups = np.arange(120) // 3
    for train, test in folds(made_up(groups=groups)):
        assert not set(groups[train]) & set(groups[test])


def test_select__never_sees_the_test_rows():
    data = made_up()
    train, test = folds(data)[0]
    # x0 equals the class in the test rows and is noise in the others
    data.x[:, 0] = 0.0
    data.x[test, 0] = data.y[test] + 1
    data.x[test, 1] = 1e6
    inside = select(data, train, ["mim", "jmi"])
    assert all(0 not in ranking["features"] for ranking in inside.values())
    without = DataSet("toy", data.x.copy(), data.y, data.nominal)
    without.x[test] = 0.0
    assert select(without, train, ["mim", "jmi"]) == inside
    assert 0 in select(data, np.arange(120), ["mim"])["mim"]["features"]


def test_split__fits_its_columns_to_the_training_rows():
    data = made_up()
    train, test = folds(data)[0]
    changed = DataSet("toy", data.x.copy(), data.y, data.nominal)
    changed.x[test] = 9.0  # a category that the training rows do not have
    one, other = Split(data, train, test), Split(changed, train, test)
    for feature in range(data.n_features):
        np.testing.assert_array_equal(one.columns[feature][train], other.columns[feature][train])
    seen = one.matrices([0, 1])[0]
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(seen.std(axis=0), 1)
    assert one.columns[7].shape[1] == 3
    assert not other.columns[7][test].any()


def test_split_of__equally_near_neighbours_are_of_any_class():
    # one category: all training rows are equally near
    y = np.repeat([0, 1, 2], 100)
    data = DataSet("toy", np.zeros((300, 1)), y, np.ones(1, bool))
    data.x[:2] = 1.0
    answers = set()
    for fold in range(10):
        split = protocol.split_of(data, fold)
        np.testing.assert_array_equal(np.sort(split.train), folds(data)[fold][0])
        train, test = split.matrices([0])
        answers.add(KNeighborsClassifier(3).fit(train, split.y_train).predict(test)[-1])
    assert len(answers) > 1


def test_judge__counts_classification_errors():
    data = made_up(n_features=15)
    split = Split(data, *folds(data)[2])
    ranking = [3, 5, 0, 1, 2, 4, 6, 8, 9, 10, 11]
    found = judge(split, [ranking, ranking[::-1]])
    train, test = split.matrices(range(11))
    first_ten = protocol.key_of(sorted(ranking[:10]))
    columns = [*range(7), 8, 9, 10]
    train, test = split.matrices(columns)
    for name, model in (("svm", LinearSVC(dual=False)), ("3nn", KNeighborsClassifier(3))):
        wrong = (model.fit(train, split.y_train).predict(test) != split.y_test).sum()
        assert found[first_ten][name] == wrong
    # both orders have the same eleven features, but not the same ten
    assert len(found) == 3
    every = protocol.key_of(sorted(ranking))
    assert set(found[every]) == {"svm", "3nn", "bayes", "tree", "nats"}
    # better than the class frequencies, which give -log 3 per row, and at most 0
    assert -len(split.test) * np.log(3) < found[every]["nats"] < 0


def test_judge__does_not_repeat_equal_feature_sets():
    data = made_up()
    split = Split(data, *folds(data)[0])
    known = {protocol.key_of(range(10)): {"svm": -1, "3nn": -2}}
    found = judge(split, [list(range(10))], known)
    assert found[protocol.key_of(range(10))]["svm"] == -1


def test_bayes__is_the_product_of_tables_and_gaussians():
    data = made_up(n_samples=300)
    split = Split(data, *folds(data)[0])
    found = protocol._bayes(split, [3, 7])
    y, category = split.y_train, data.x[split.train, 7]
    numbers = split.columns[3][:, 0]
    for row, sample in enumerate(split.test[:5]):
        for c in range(3):
            own = numbers[split.train][y == c]
            density = -0.5 * ((numbers[sample] - own.mean()) / own.std()) ** 2 - np.log(own.std())
            same = (category[y == c] == data.x[sample, 7]).sum()
            expected = np.log((y == c).mean()) + density - 0.5 * np.log(2 * np.pi)
            expected += np.log((same + 1) / ((y == c).sum() + 3))
            assert found[row, c] == pytest.approx(expected, abs=1e-6)


def test_errors__are_lower_for_a_good_method():
    found = errors(made_up(n_samples=300, n_features=40), 0, ["mim"])
    assert set(found) == {"mim"}
    assert len(found["mim"]["svm"]) == len(found["mim"]["3nn"]) == 4
    assert found["mim"]["svm"][0] < 0.5


def test_methods__are_the_eight_of_the_paper_and_older_criteria():
    assert [method.label for method in RANKED] == list(page.NAMES)[:8]
    assert [method.label for method in SHOWN] == list(page.NAMES)[8:]


# statistics


def test_ranks__equal_errors_share_a_rank():
    found = statistics.ranks(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.5]]))
    np.testing.assert_array_equal(found, [[3, 1, 2], [2.5, 2.5, 1]])


def test_critical_difference__is_that_of_demsar():
    # Demsar (2006): four classifiers, 14 sets, q = 2.569; ten sets and five methods: q = 2.728
    assert statistics.critical_difference(4, 14) == pytest.approx(
        2.569 * (4 * 5 / (6 * 14)) ** 0.5, abs=1e-3
    )
    assert statistics.critical_difference(5, 10) == pytest.approx(2.728 * 0.5**0.5, abs=1e-3)


def test_wilcoxon__equal_methods_do_not_differ():
    assert statistics.wilcoxon(np.ones(9), np.ones(9)) == 1.0
    # nine differences of one sign: 2 of 2^9 sign patterns are as extreme
    assert statistics.wilcoxon(np.zeros(9), np.arange(1.0, 10)) == pytest.approx(2 / 2**9)


# models and rows


def test_tree__true_gains_follow_from_distances():
    # x1 to x3 are independent within a class, so squared distances add up
    total = tree_information("x1", "x2", "x3")
    assert total == pytest.approx(0.1712, abs=1e-4)
    assert tree_information("x1", "x2", "x3", "x4", "x9") == pytest.approx(total, abs=1e-12)
    own = [0.1108, 0.0420, 0.0176, *[-0.002] * 6]
    truth = [0.1114, 0.0422, 0.0176, *[0.0] * 6]
    assert models.mean_difference(own, truth) < models.mean_difference(
        printed.TREE_GAINS["hofs"], truth
    )


@pytest.mark.parametrize("features", [["F1"], ["F6", "F9"], ["F11", "F14"], ["F13", "F15", "F8"]])
def test_heterogeneous__true_information_equals_that_of_samples(features):
    # the mean plug-in information over seeds, minus its known bias
    found = []
    for seed in range(20):
        model = heterogeneous_model(seed)
        x = np.sign(model["x"].sel(feature=features).values) * 1000
        x += np.where(np.abs(model["x"].sel(feature=features).values) == 2, 1, 0)
        joint = np.column_stack([x, model["y"].values])
        shares = [
            np.unique(table, axis=0, return_counts=True)[1] / 1000
            for table in (x, joint[:, -1:], joint)
        ]
        entropies = [-(p * np.log(p)).sum() for p in shares]
        bias = (len(shares[2]) - len(shares[0]) - len(shares[1]) + 1) / 2000
        found.append(entropies[0] + entropies[1] - entropies[2] - bias)
    truth = models.heterogeneous_information(features)
    assert truth == pytest.approx(np.mean(found), abs=0.01)


def test_solve_row__is_at_the_optimum():
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, 200))
    target = given[0] + rng.laplace(size=200)
    target = (target - target.mean()) / target.std()
    signal, value = solve_row(target, given)

    def loss(theta):
        s = np.exp(theta[0]) * target - theta[1] - theta[2:] @ given
        return np.mean(np.abs(s) + 2 * np.log1p(np.exp(-np.abs(s)))) - theta[0]

    best = minimize(
        loss, np.zeros(4), method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-9}
    )
    assert value == pytest.approx(best.fun, abs=1e-6)
    # phi' is uncorrelated with what is given
    np.testing.assert_allclose(given @ np.tanh(signal / 2), 0, atol=1e-5)


def test_quality__signals_are_less_correlated_than_features():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    cause = rng.normal(size=400) + y
    x = np.column_stack([cause + rng.normal(size=400) for _ in range(3)] + [rng.normal(size=400)])
    data = DataSet("toy", x, y, np.zeros(4, bool))
    # gaussian rows give the same choice without compiled kernels
    method = hd.HOFS(criterion="sum", source="gaussian")
    chosen = select(data, np.arange(400), [method])[method.label]
    found = quality.quality(data, chosen, chosen)
    assert found["features"]["100"] > 0.4
    assert found["signals"]["100"] < 0.05
    assert found["within"]["100"] < 1e-9
    assert [subset["size"] for subset in found["subsets"]] == [3, 1]
    # two equally frequent classes: log 2, and the entropy of a logistic density for two points
    assert found["bare"]["column"] == pytest.approx(np.log(2) / (1.4967 + np.log(0.5)), abs=1e-3)
    assert found["bare"]["column"] == pytest.approx(found["bare"]["indicators"])
    assert found["bare"]["gaussian"] == pytest.approx(
        np.log(2) / (0.5 * np.log(2 * np.pi * np.e / 4)), abs=1e-9
    )


# runs and the page


def call(folder, *options):
    arguments = ["--data", str(folder), "--sets", "toy", "--methods", "mim,jmi", "--workers", "0"]
    arguments += ["--output", str(folder / "out"), "--cache", str(folder / "kept"), *options]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return (folder / "out" / "PAGE.md").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sets", "promotr"], "there is no"),
        (["--methods", "hofs,foo"], "'foo'"),
        (["--data", "nowhere"], "Give --data FOLDER"),
    ],
)
def test_main__explains_errors_in_one_line(tmp_path, options, said):
    rng = np.random.default_rng(0)
    kinds = np.full(3, "numeric")
    np.savez(
        tmp_path / "toy.npz", X=rng.normal(size=(20, 3)), y=np.arange(20) % 2, feature_kinds=kinds
    )
    usual = ["--data", str(tmp_path), "--sets", "toy", "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*usual, *options])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert done.output.startswith("Error: ")
    assert said in done.output
    assert not (tmp_path / "out").exists()


@pytest.fixture
def selected(monkeypatch):
    """Return the numbers of rows used by each selection, with three folds instead of ten."""
    made, real = [], protocol.select

    def spying(data, rows, methods):
        made.append(len(rows))
        return real(data, rows, methods)

    monkeypatch.setattr(protocol, "N_FOLDS", 3)
    monkeypatch.setattr(protocol, "select", spying)
    return made


def test_main__second_run_is_identical_and_reuses_stored_folds(folder, selected):
    only = [word for name in ("errors", "information", "arae") for word in ("--only", name)]
    first = call(folder, *only)
    assert sorted(selected) == [80, 80, 80, 120]
    for title in ("Cross-validation error", "Global information", "Average relative absolute"):
        assert f"## {title}" in first
    pictures = {path: path.read_bytes() for path in (folder / "out" / "figures").iterdir()}
    assert pictures
    # only the deleted fold is computed again
    selected.clear()
    (folder / "kept" / "toy" / "rank-2.json").unlink()
    assert call(folder, *only) == first
    assert selected == [80]
    # without stored results
    shutil.rmtree(folder / "kept")
    assert call(folder, *only) == first
    assert all(path.read_bytes() == content for path, content in pictures.items())


def test_kept__requires_the_same_key(tmp_path):
    path = tmp_path / "a" / "b.json"
    assert runs.kept(path, {"version": 1}) is None
    runs.keep(path, {"version": 1}, [1.5, None])
    assert runs.kept(path, {"version": 1}) == [1.5, None]
    assert runs.kept(path, {"version": 2}) is None
    assert [file.name for file in path.parent.iterdir()] == ["b.json"]
    assert json.loads(path.read_text())["key"] == {"version": 1}


def outcome(name, **found):
    """Return an outcome in which every method has the given error for all sizes."""
    n_samples = 1000
    wrong = {label: share * n_samples for label, share in found.items()}
    by_classifier = {
        label: {c: np.full(10, count) for c in protocol.CURVES} for label, count in wrong.items()
    }
    return runs.Outcome(
        name=name,
        n_samples=n_samples,
        sizes=list(range(10, 101, 10)),
        entropy=np.log(2),
        chance=0.5,
        wrong=dict.fromkeys(runs.SCOPES, by_classifier),
        wrong_top={
            scope: {
                label: dict.fromkeys(protocol.CLASSIFIERS, count) for label, count in wrong.items()
            }
            for scope in runs.SCOPES
        },
        nats={scope: dict.fromkeys(wrong, -100.0) for scope in runs.SCOPES},
    )


def test_outcome__converts_counts_to_errors():
    found = outcome("lung", hofs=0.1)
    assert found.error("folds", "hofs", "svm") == pytest.approx(10)
    assert found.arae("all", "hofs") == pytest.approx(20)
    assert found.information("all", "hofs") == pytest.approx(np.log(2) - 0.1)


def test_page__ranks_the_eight_methods_and_tests_differences(tmp_path):
    sets = [
        outcome(name, hofs=0.1 + step, mim=0.2 + step, jmi=0.3, vmi=0.1 + step)
        for name, step in zip(SETS, np.arange(9) / 1000, strict=True)
    ]
    text = page.errors_section(
        [*sets, outcome("musk2-grouped", hofs=0.9, mim=0.9, jmi=0.9, vmi=0.9)], tmp_path
    )
    assert "| HOFS | 10.40 | **1.50** |" in text
    assert "| JMI | 30.00 | 4.00 |" in text
    assert "mean rank 1.50, first of 4; significantly better than MIM, JMI" in text
    assert "significantly worse than none" in text
    assert "| musk2-grouped | **90.00** |" in text
    assert "| semeion | **10.30** / 13.7 |" in text
    assert {path.name for path in tmp_path.iterdir()} == {
        "errors_svm.png",
        "errors_3nn.png",
        "semeion.png",
        "ranks.png",
    }
    assert "**0.593** / 83.909" in page.information_section(sets)
    assert "| **20.00** / 11.4 |" in page.arae_section(sets)


def test_page__explains_unbalanced_entropies():
    def found(bare, *subsets):
        parts = [
            {"size": 2, "samples": samples, "column": r, "gaussian": r, "indicators": r}
            for samples, r in subsets
        ]
        numbers = {"11": None, "30": 0.04, "100": 0.05}
        bare = {"size": 0, "samples": 1000.0, "column": bare, "gaussian": bare, "indicators": bare}
        return {
            "features": numbers,
            "signals": numbers,
            "within": {"11": None, "30": None, "100": 0.001},
            "subsets": parts,
            "bare": bare,
        }

    text = page.quality_section(
        {
            "lung": found(1.0, (100, 1.0)),
            "splice": found(0.8, (2, 0.3)),
            "musk2": found(1.0, (50, 0.7)),
        }
    )
    assert "Mean over the sets 0.050" in text
    assert "within classes, mean 0.001" in " ".join(text.split())
    assert "- lung" not in text
    assert "- splice: the row of the class alone gives 0.80" in text
    assert "1 of 1 subsets have 2.0 samples per cell" in text
    assert "- musk2: full cells give 0.70: a table describes dependence" in text


def test_page__shows_the_models_with_true_values(tmp_path):
    labels = [method.label for method in models.METHODS]
    tree = {
        "single": {"truth": [0.1] * 9, "counts": [0.1] * 9},
        "gains": {"truth": [0.1114, 0.0422, 0.0176, *[0.0] * 6]}
        | {label: [0.0] * 9 for label in labels},
        "subsets": {key: [["x1", "x4"]] for key in labels},
        "ranking": {key: ["x1", "x4"] for key in labels},
        "covariance": np.eye(9).tolist(),
    }
    text = page.tree_section(tree, tmp_path)
    assert "NOT closer" in text
    assert "{x1, x4}" in text
    curves = {"seen": [0.9] * 14, "truth": [0.95] * 14}
    mixed = {
        "subsets": {key: [["F1"]] for key in labels},
        "ranking": {key: [f"F{number}" for number in range(1, 21)] for key in labels},
        "information": dict.fromkeys(labels, curves),
    }
    assert "{F9, F4, F14, F10, F5, F15}" in page.heterogeneous_section(mixed, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tree.png", "heterogeneous.png"}


def test_main__help_lists_the_sections():
    text = CliRunner().invoke(main, ["--help"]).output
    assert all(section in text for section in SECTIONS)
