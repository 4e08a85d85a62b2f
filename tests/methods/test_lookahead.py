"""HOFS looks ahead: features that have information only together are chosen together."""

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.methods import lookahead
from hofs_dask.methods.base import Sizes
from hofs_dask.methods.interactions import p_values
from hofs_dask.methods.lookahead import default_order, smallest_synergy, tuple_requests
from tests.oracles_interactions import synergy


def parity(seed, m, *, order=2, n=5000, binary=False):
    """Return noise, the parity of the signs of some columns, and these columns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m))
    columns = rng.choice(m, order, replace=False)
    y = (x[:, columns] > 0).sum(axis=1) % 2
    return (x > 0).astype(int) if binary else x, y, set(columns.tolist())


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("seed", "m"), [(0, 50), (1, 50), (2, 1000)])
def test_exclusive_or__both_features_come_first(seed, m, binary):
    x, y, columns = parity(seed, m, binary=binary)
    found = hd.select(x, y, 4)
    assert set(found.indices[:2].tolist()) == columns
    assert set(found.subsets[0]) == {f"x{i}" for i in columns}
    data = found.to_dataset()
    assert data["together"].values.tolist() == [1, 0, 0, 0]
    assert data["information"].values[1] > (0.68 if binary else 0.5)
    assert "with the next" in str(found)


@pytest.mark.parametrize("binary", [False, True])
def test_parity_of_three__is_found_with_order_3(binary):
    x, y, columns = parity(0, 30, order=3, binary=binary)
    found = hd.select(x, y, 4, method=hd.HOFS(order=3))
    assert set(found.indices[:3].tolist()) == columns
    assert set(found.subsets[0]) == {f"x{i}" for i in columns}
    assert found.to_dataset()["together"].values.tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("others", [0, 3])
def test_third_of_a_parity__is_found_once_two_are_chosen(binary, others):
    x, y, columns = parity(1, 50, order=3, binary=binary)
    first, second, third = columns
    noise = [i for i in range(50) if i not in columns][:others]
    found = hd.select(x, y, 4 + others, include=[first, *noise, second])
    assert found.indices[2 + others] == third
    kept = hd.select(x, y, "auto", include=[first, *noise, second])
    assert kept.indices.tolist() == [first, *noise, second, third]
    assert kept.to_dataset()["p_value"].values[-1] < 1e-9


def test_order_1__chooses_one_feature_at_a_time():
    x, y, columns = parity(0, 50)
    found = hd.select(x, y, 4, method=hd.HOFS(order=1))
    assert set(found.indices[:2].tolist()) != columns
    assert not found.to_dataset()["together"].values.any()


def test_gain_and_information__are_those_of_included_features():
    x, y, _ = parity(3, 20)
    found = hd.select(x, y, 2).to_dataset()
    given = hd.select(
        x, y, 2, include=found["index"].values.tolist(), method=hd.HOFS(order=1)
    ).to_dataset()
    for name in ("gain", "information", "score", "redundancy"):
        assert found[name].values.tolist() == given[name].values.tolist()


def mixed(n=20_000):
    """Return a strong feature, ten weak ones, an exclusive or between them in strength, noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 20))
    pair = (x[:, 17] > 0) ^ (x[:, 5] > 0)
    signal = 3 * x[:, 9] + 0.3 * x[:, 10:15].sum(axis=1) + 1.2 * (2 * pair - 1)
    return x, (signal + rng.logistic(size=n) > 0).astype(int)


def test_pair__waits_for_a_stronger_feature_and_comes_before_weaker_ones():
    found = hd.select(*mixed(), 8)
    assert found.indices[0] == 9
    assert set(found.indices[1:3].tolist()) == {5, 17}
    assert set(found.indices[3:].tolist()) == {10, 11, 12, 13, 14}
    assert (found.to_dataset()["epoch"].values == 0).all()


def test_data_without_synergy__has_the_same_selection():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 30))
    y = (x[:, :6].sum(axis=1) + rng.logistic(size=4000) > 0).astype(int)
    found, alone = (hd.select(x, y, 12, method=hd.HOFS(order=k)).to_dataset() for k in (2, 1))
    for name in ("index", "subset", "score", "gain", "information", "epoch", "together"):
        assert found[name].values.tolist() == alone[name].values.tolist()


def test_auto__chooses_the_pair_and_ends():
    x, y, columns = parity(4, 40)
    found = hd.select(x, y, "auto")
    assert set(found.indices.tolist()) == columns
    assert found.to_dataset()["p_value"].values.max() < 1e-9


def test_auto__noise_has_no_tuples():
    rng = np.random.default_rng(1)
    for _ in range(10):
        x, y = rng.normal(size=(500, 30)), rng.integers(0, 2, 500)
        assert not hd.select(x, y, "auto", alpha=1e-3).features


def test_min_gain__is_compared_with_the_gain_per_feature():
    x, y, columns = parity(5, 30, binary=True)
    assert set(hd.select(x, y, 6, min_gain=0.3).indices.tolist()) == columns
    # half of log 2 is less: only the first feature of all, which is always chosen
    assert len(hd.select(x, y, 6, min_gain=0.4).features) == 1


def test_excluded_feature__is_no_part_of_a_tuple():
    x, y, columns = parity(6, 30)
    found = hd.select(x, y, 3, exclude=[min(columns)])
    assert not found.to_dataset()["together"].values.any()


def test_included_feature__is_no_part_of_a_tuple():
    x, y, columns = parity(6, 30)
    first, second = columns
    found = hd.select(x, y, 3, include=[first])
    assert found.indices[:2].tolist() == [first, second]
    assert not found.to_dataset()["together"].values.any()


def test_two_pairs__are_both_found():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(5000, 60))
    first, second = (x[:, 3] > 0) ^ (x[:, 40] > 0), (x[:, 20] > 0) ^ (x[:, 55] > 0)
    y = first + 2 * second
    found = hd.select(x, y, 4)
    assert [set(each) for each in found.subsets] in (
        [{"x3", "x40"}, {"x20", "x55"}],
        [{"x20", "x55"}, {"x3", "x40"}],
    )


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_copies_of_a_pair__come_together_after_a_restart(noise):
    x, y, columns = parity(3, 20, n=3000)
    copies = x[:, sorted(columns)] + noise * np.random.default_rng(0).normal(size=(3000, 2))
    found = hd.select(np.column_stack([x, copies]), y, 5)
    assert set(found.indices[:2].tolist()) == columns
    assert set(found.indices[2:4].tolist()) == {20, 21}
    data = found.to_dataset()
    assert data["epoch"].values.tolist() == [0, 0, 1, 1, 2]
    assert data["together"].values.tolist() == [1, 0, 1, 0, 0]


def test_pair_of_nominal_features__with_many_levels_is_found():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 30, (5000, 20))
    y = x[:, 3] % 2 ^ x[:, 11] % 2
    found = hd.select(x, y, 2, nominal=list(range(20)))
    assert set(found.indices.tolist()) == {3, 11}
    assert found.to_dataset()["together"].values.tolist() == [1, 0]


@pytest.mark.parametrize("weight", [None, 1000.0])
@pytest.mark.parametrize("groups", [None, 50])
def test_pair__is_found_with_weights_missing_values_and_groups(weight, groups):
    x, y, columns = parity(11, 20, n=3000)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    options = {}
    if weight:
        options["weights"] = np.where(np.arange(3000) < 300, weight, 1.0)
    if groups:
        options["groups"] = np.arange(3000) // groups
    assert set(hd.select(x, y, 3, **options).indices[:2].tolist()) == columns


def test_triple__is_chosen_whole_by_a_run_that_stops_within_it(tmp_path):
    x, y, columns = parity(5, 15, order=3, n=3000)
    codes = hd.encode(x, y, tmp_path / "codes.zarr")
    options = {"method": hd.HOFS(order=3)}
    whole = hd.select(codes, None, 5, **options)
    assert set(whole.indices[:3].tolist()) == columns
    for stop in (1, 2):
        place = tmp_path / f"checkpoint {stop}"
        hd.select(codes, None, stop, checkpoint=place, **options)
        assert hd.select(codes, None, 5, checkpoint=place, **options) == whole
    kept = hd.select(codes, None, "auto", **options)
    assert set(kept.indices.tolist()) == columns


def test_n_features_that_cuts_a_tuple__is_noted_with_the_features_that_are_missing(tmp_path):
    x, y, _ = parity(5, 15, order=3, n=3000)
    codes = hd.encode(x, y, tmp_path / "codes.zarr")
    options = {"method": hd.HOFS(order=3), "checkpoint": tmp_path / "checkpoint"}
    whole = hd.select(codes, None, 3, **options)
    first, second, third = map(repr, whole.features)
    assert "cut off" not in str(whole)
    notes = {
        1: f"{second} and {third} are cut off by n_features=1: {first} was chosen because of what "
        f"it says together with {second} and {third}, and says little without them; n_features=3 "
        "includes them",
        2: f"{third} is cut off by n_features=2: {first} and {second} were chosen because of what "
        f"they say together with {third}, and say little without it; n_features=3 includes it",
    }
    for n_features, note in notes.items():
        found = hd.select(codes, None, n_features, method=hd.HOFS(order=3))
        assert found.to_dataset().attrs["notes"] == note
        assert f"note: {note}" in " ".join(str(found).split())
        table = found.to_dataframe()["note"].tolist()
        assert table == ["with the next"] * (n_features - 1) + ["partner cut off"]
        assert "partner cut off: this feature" in str(found)
        # the checkpoint has all three
        assert hd.select(codes, None, n_features, **options) == found
        path = tmp_path / f"{n_features}.html"
        found.to_html(path)
        assert "are cut off by" in path.read_text() or "is cut off by" in path.read_text()
        assert whole[:n_features].to_dataframe()["note"].tolist() == table
        assert "partner cut off: this feature" in str(whole[:n_features])


def test_result__does_not_depend_on_chunks_or_a_resumed_run(tmp_path):
    x, y, _ = parity(8, 25, n=70_000)  # more than `SCREENED` samples
    wanted = hd.select(x, y, 4).to_dataset()
    for number, chunks in enumerate([(999, 25), (20_000, 7)]):
        codes = hd.encode(x, y, tmp_path / f"{number}.zarr", chunks=chunks)
        place = tmp_path / f"checkpoint {number}"
        hd.select(codes, None, 1, checkpoint=place)  # stops within the pair
        found = hd.select(codes, None, 4, checkpoint=place).to_dataset()
        for name in ("index", "subset", "together", "epoch"):
            assert found[name].values.tolist() == wanted[name].values.tolist()
        for name in ("gain", "information", "score"):
            np.testing.assert_allclose(found[name].values, wanted[name].values, atol=1e-12)


def test_compare__looks_ahead_in_resamples():
    x, y, columns = parity(9, 20, n=2000)
    found = hd.compare(x, y, 2, methods=["hofs", "mim"], n_resamples=3)
    assert set(found["hofs"].indices.tolist()) == columns
    frequency = found.to_dataset()["frequency"].sel(method="hofs").values
    assert set(np.flatnonzero(frequency == 1).tolist()) == columns


def test_default_order__depends_on_the_sizes():
    assert default_order(100_000, 200, 2, 32) == default_order(10**6, 500, 2, 32) == 2
    assert default_order(5000, 1000, 2, 15) == 2
    assert default_order(5000, 100_000, 2, 15) == 1
    assert default_order(10**9, 100_000, 2, 15) == 2  # a small part of the search
    assert hd.HOFS(order=2).order_for(Sizes(100, 10**6, 2, 5, n_picks=1)) == 2


def test_order__of_the_other_criteria_is_refused():
    with pytest.raises(ValueError, match="order of HOFS is 2 and criterion is 'sum'"):
        hd.HOFS(criterion="sum", order=2)
    for order in (4, 2.0, True):
        with pytest.raises(ValueError, match=f"unknown order of HOFS {order}"):
            hd.HOFS(order=order)


def test_smallest_synergy__is_found_as_often_as_stated():
    """An exclusive or with this synergy is significant in 90 of 100 draws."""
    rng = np.random.default_rng(0)
    n, n_tuples = 4000, 1225
    least = smallest_synergy(n, 1, n_tuples, miss=0.1)
    low, high = 0.0, 0.5
    for _ in range(50):  # the share of exceptions that has this synergy
        share = (low + high) / 2
        table = np.array([[[1 - share, share], [share, 1 - share]]] * 2)
        table[1] = table[1][::-1]
        low, high = (share, high) if synergy(n * table) > least else (low, share)
    found = [synergy(rng.multinomial(n, table.ravel() / 4).reshape(2, 2, 2)) for _ in range(300)]
    p = p_values(np.array(found), n, np.ones(300), np.ones(300))
    assert np.mean(p * n_tuples <= lookahead.ALPHA) == pytest.approx(0.9, abs=0.05)


def test_tuple_requests__are_those_of_a_run(tmp_path):
    x, y, _ = parity(10, 30, n=40_000)
    codes = hd.encode(x, y, tmp_path / "codes.zarr", bins=5, chunks=(8192, 8))
    asked = []
    hd.select(codes, None, 1, callback=asked.append)
    names = [event.reduction for event in asked if isinstance(event, hd.ScanEnded)]
    sizes = Sizes(40_000, 30, 2, 5, n_picks=0, tile_width=8)
    planned = [request.reduction.name for request in tuple_requests(sizes, 2)]
    assert [name for name in names if name in ("tuples", "group-counts")] == planned
