"""The end of a search: significance, a least gain, and results without features."""

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.search.stopping import Stop
from tests.cli.shell import run as shell


def data(seed=1, n=1200, n_features=12):
    """Return features of which x7 and x3 depend on a class, and the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, n_features))
    x[:, 7] += 2 * y
    x[:, 3] += y
    return x, y


NOISE = np.random.default_rng(5).normal(size=(300, 8)), np.arange(300) % 2


@pytest.mark.parametrize("method", ["hofs", "mim", "jmi", "mrmr", "cmim", "spec_cmi", "njmim"])
def test_auto__chooses_the_significant_features(method):
    found = hd.select(*data(), "auto", method=method)
    assert found.features == ["x7", "x3"]
    p = found.to_dataset()["p_value"].values
    assert (p < 0.05 / 12).all()
    assert (p > 0).all()


@pytest.mark.parametrize("method", ["hofs", "jmi", "mim"])
def test_auto__chooses_nothing_from_noise(method):
    found = hd.select(*NOISE, "auto", method=method)
    assert found.features == []
    assert "0 of 8 features" in repr(found)
    assert "no remaining feature depends significantly" in repr(found)


@pytest.mark.parametrize("shape", [(300, 20), (32, 56)])
def test_auto__rarely_chooses_noise(shape):
    """0.05 of the runs; 5 or more of 30 has a probability of 0.02 even at that rate."""
    chosen = 0
    for seed in range(30):
        rng = np.random.default_rng((seed, *shape))
        found = hd.select(rng.normal(size=shape), rng.integers(0, 2, shape[0]), "auto")
        chosen += len(found.features) > 0
    assert chosen <= 4


def test_auto__finds_a_partner_that_acts_only_together():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 2, (1500, 10))
    y = x[:, 1] ^ x[:, 5]
    found = hd.select(x, y, "auto", include=["x1"])
    assert found.features == ["x1", "x5"]
    assert found.to_dataset()["p_value"][1] < 1e-9
    assert hd.select(x, y, "auto", method=hd.HOFS(order=1)).features == []
    assert set(hd.select(x, y, "auto").features) == {"x1", "x5"}


@pytest.mark.parametrize("n_classes", [2, 5])
def test_auto__chooses_nothing_after_a_copy_of_the_target(n_classes):
    """Tables are shrunk, so a copy leaves the classes uncertain; others then seemed to add."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 400)
    x = rng.normal(size=(400, 8))
    x[:, 2] += 1.5 * y
    x[:, 5] = x[:, 6] = y
    x[:, 7] = -y
    assert hd.select(x, y, "auto").features == ["x5"]
    x[:, 5:] = rng.normal(size=(400, 3))
    x[y == 1, 5] = np.nan
    first = hd.select(x, y == 1, "auto").features
    assert first == ["x5"]


def test_auto__rarely_chooses_what_depends_on_picks_only():
    """y depends on x0 alone; x1 and x2 are noisy copies of it."""
    more = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, 5, 1500)
        y = rng.random(1500) < 1 / (1 + np.exp(2.0 - a))
        noisy = np.clip(a[:, None] + rng.integers(-1, 2, (1500, 2)), 0, 4)
        found = hd.select(np.column_stack([a, noisy, rng.normal(size=(1500, 4))]), y, "auto")
        assert found.features[0] == "x0"
        more += len(found.features) > 1
    assert more <= 2


def test_auto__finds_rare_classes():
    """Features of a class with one sample in 200 add little information, all of it certain."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20_000, 12))
    odds = x[:, [2, 5, 9]].sum(axis=1) * 1.2 - 7.5
    y = rng.random(20_000) < 1 / (1 + np.exp(-odds))
    found = hd.select(x, y, "auto")
    assert sorted(found.features) == ["x2", "x5", "x9"]
    assert len(hd.select(x, y, 12, min_gain=0.01).features) < 3


def continuous(seed, n=400):
    """Return noise features, of which x3 and |x6| determine a continuous target, and groups."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 10))
    y = x[:, 3] + 1.5 * np.abs(x[:, 6]) + 0.5 * rng.normal(size=n)
    return x, y, np.arange(n) % 40, rng.random(n) + 0.1


@pytest.mark.parametrize("given", ["nothing", "groups", "weights", "both"])
def test_auto__of_a_continuous_target_takes_groups_and_weights(given):
    x, y, groups, weights = continuous(0)
    options = {}
    if given in ("groups", "both"):
        options["groups"] = groups
    if given in ("weights", "both"):
        options["weights"] = weights
    found = hd.select(x, y, "auto", **options)
    assert sorted(found.features) == ["x3", "x6"]
    assert (found.to_dataset()["p_value"] < 0.005).all()


@pytest.mark.parametrize("given", ["nothing", "groups", "weights"])
def test_auto__of_a_continuous_target_rarely_chooses_noise(given):
    """In 0.05 of the runs; 5 or more of 25 have a probability of 0.007 at that rate."""
    chosen = 0
    for seed in range(25):
        x, _, groups, weights = continuous(seed, 240)
        options = {"groups": {"groups": groups}, "weights": {"weights": weights}}.get(given, {})
        y = np.random.default_rng((seed, 1)).normal(size=240)
        chosen += len(hd.select(x, y, "auto", **options).features) > 0
    assert chosen <= 4


def test_auto__of_groups_ignores_what_belongs_to_a_group_only():
    """The target and x5 have one value per subject; 30 subjects are not 1200 samples."""
    chosen = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        subject = np.repeat(np.arange(30), 40)
        x = rng.normal(size=(1200, 8))
        x[:, 5] = rng.normal(size=30)[subject]
        y = rng.normal(size=30)[subject]
        chosen += len(hd.select(x, y, "auto", groups=subject).features) > 0
    assert chosen <= 2


def test_auto__has_an_upper_limit_in_all_features():
    x, y = data()
    assert sorted(hd.select(x[:, [3, 7]], y, "auto").features) == ["x0", "x1"]


def test_auto__of_a_larger_alpha_chooses_no_less():
    x, y = data(3)
    few, many = (hd.select(x, y, "auto", alpha=alpha).features for alpha in (1e-30, 0.9))
    assert few == ["x7"]
    assert many[:2] == ["x7", "x3"]


def test_auto__is_the_same_for_any_chunks(tmp_path):
    x, y = data()
    found = []
    for name, chunks in (("a", (100, 5)), ("b", (1200, 12)), ("c", (77, 3))):
        codes = hd.encode(x, y, tmp_path / name, chunks=chunks)
        found.append(hd.select(codes, None, "auto").to_dataset())
    for other in found[1:]:
        assert other["index"].values.tolist() == found[0]["index"].values.tolist()
        np.testing.assert_allclose(other["p_value"], found[0]["p_value"], rtol=1e-9)


def test_auto__resumes_from_a_checkpoint(tmp_path):
    x, y = data()
    codes = hd.encode(x, y, tmp_path / "codes.zarr")
    whole = hd.select(codes, None, "auto")

    def interrupt(event):
        if getattr(event, "rank", 0) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hd.select(codes, None, "auto", checkpoint=tmp_path / "run", callback=interrupt)
    assert hd.select(codes, None, "auto", checkpoint=tmp_path / "run") == whole
    assert hd.select(codes, None, "auto", checkpoint=tmp_path / "run") == whole
    with pytest.raises(ValueError, match="alpha: 0.05 in the checkpoint, 0.01 now"):
        hd.select(codes, None, "auto", alpha=0.01, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="alpha: 0.05 in the checkpoint, None now"):
        hd.select(codes, None, 2, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_selection_without_features__has_every_form(tmp_path, suffix):
    x, y = NOISE
    found = hd.select(x, y, "auto")
    found.save(tmp_path / f"result{suffix}")
    assert hd.load(tmp_path / f"result{suffix}") == found
    assert found.subsets == []
    assert found.transform(x).shape == (300, 0)
    assert len(found.to_dataframe()) == 0
    assert "0 of 8" in found._repr_html_()
    found.plot()


def test_compare__takes_auto():
    found = hd.compare(*data(), "auto", methods=["hofs", "jmi", "mim"])
    assert found.features == {name: ["x7", "x3"] for name in ("hofs", "jmi", "mim")}
    empty = hd.compare(*NOISE, "auto", methods=["hofs", "mim"])
    assert empty.features == {"hofs": [], "mim": []}
    assert "hofs" in repr(empty)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": "all"}, "n_features is 'all'; give a whole number such as 10, or 'auto'"),
        ({"n_features": "auto", "alpha": 2}, "alpha is 2; give a probability between 0 and 1"),
        ({"n_features": "auto", "alpha": "x"}, "alpha is 'x'; give a probability"),
        ({"n_features": 2, "alpha": 0.1}, "alpha is 0.1, but n_features is 2"),
        ({"n_features": "auto", "method": "vmi"}, "vmi has no test of significance"),
        ({"n_features": "auto", "method": hd.HOFS("sum")}, "hofs.criterion='sum'. has no test"),
        ({"n_features": 2, "min_gain": "1"}, "or a share of H.y. such as '1%'"),
        ({"n_features": 2, "min_gain": "1%%"}, "min_gain is '1%%'"),
        ({"n_features": 2, "min_gain": "nan%"}, "min_gain is 'nan%'"),
    ],
)
def test_invalid_ends__are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hd.select(*NOISE, **options)


def test_compare__refuses_auto_with_resamples():
    with pytest.raises(ValueError, match="give n_features as a number"):
        hd.compare(*NOISE, "auto", methods=["hofs"], n_resamples=3)


def test_min_gain__as_a_share_is_that_of_the_entropy():
    x, y = data()
    entropy = hd.select(x, y, 1).to_dataset().attrs["label_entropy"]
    for share in (0.5, 5.0, 30.0):
        wanted = hd.select(x, y, 12, min_gain=share / 100 * entropy)
        assert hd.select(x, y, 12, min_gain=f"{share}%").features == wanted.features
    assert Stop.parse("2.5%", None).given_min_gain == "2.5%"


@pytest.mark.parametrize("method", ["mim", "jmi", "mrmr", "cmim"])
def test_min_gain__of_baselines_does_not_accept_noise(method):
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(2000, 60)), rng.integers(0, 2, 2000)
    assert len(hd.select(x, y, 60, method=method, min_gain=0.0001).features) == 1
    x[:, 11] += y
    x[:, 30] += y
    assert set(hd.select(x, y, 60, method=method, min_gain=0.001).features) == {"x11", "x30"}


@pytest.mark.parametrize("method", ["mim", "jmi"])
def test_min_gain__of_baselines_with_weights_does_not_accept_noise(method):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 30)), rng.integers(0, 2, 2000)
    weights = rng.random(2000) + 0.1
    options = {"method": method, "min_gain": 0.0001, "weights": weights}
    assert len(hd.select(x, y, 30, **options).features) == 1
    x[:, 11] += y
    x[:, 20] += y
    assert set(hd.select(x, y, 30, **options).features) == {"x11", "x20"}


def test_shell__takes_auto_and_shares(tmp_path):
    x, y = data()
    path = tmp_path / "codes.zarr"
    codes = hd.encode(x, y, path)
    found = shell("select", path, "--n-features", "auto", "--alpha", "0.01")
    assert found.exit_code == 0, found.output
    assert repr(hd.select(codes, None, "auto", alpha=0.01)) in found.output
    found = shell("select", path, "--n-features", "5", "--min-gain", "2%")
    assert repr(hd.select(codes, None, 5, min_gain="2%")) in found.output
    assert "neither a whole number" in shell("select", path, "--n-features", "0").output
    assert "--min-gain" in shell("select", path, "--n-features", "2", "--min-gain", "x").output
