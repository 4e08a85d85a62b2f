"""`compare`: the same results as separate selections, in the scans of one method."""

import dask
import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.engine import budget, scanning
from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.reduction import Request
from hofs_dask.kernels.hashing import N_BLOCKS, multiplicity
from hofs_dask.store.codes import read_codes, read_labels

N, M, T = 1500, 10, 5
PAIRWISE = ("mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "cife", "icap", "disr", "jmim")
SPECTRAL = hd.SpecCMI(form="spectral")


def interacting_data():
    """Return integers with a copy, a noisy copy, an XOR, three classes and missing labels."""
    rng = np.random.default_rng(11)
    y = rng.integers(0, 3, N)
    x = rng.integers(0, 4, (N, M))
    x[:, 1] = (x[:, 2] + y) % 4
    x[:, 4] = np.where(rng.random(N) < 0.6, y, x[:, 4])
    x[:, 5] = x[:, 4]
    x[:, 6] = np.where(rng.random(N) < 0.8, x[:, 4], x[:, 6])
    return x, np.where(np.arange(N) % 40 == 0, np.nan, y)


X, Y = interacting_data()


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    store = tmp_path_factory.mktemp("compare") / "codes.zarr"
    return hd.encode(X, Y, store, bins=None, target_kind="class", chunks=(400, M))


@pytest.fixture(scope="module")
def everything(codes):
    """A comparison of all methods, and its events."""
    events = []
    methods = [*hd.METHODS, *PAIRWISE[6:], SPECTRAL, hd.VMI(form="pairwise")]
    return hd.compare(codes, None, T, methods=methods, callback=events.append), events


@pytest.mark.parametrize("name", [*hd.METHODS, *PAIRWISE[6:]])
def test_compare__every_method_gives_the_result_of_select(codes, everything, name):
    assert everything[0][name] == hd.select(codes, None, T, method=name)


@pytest.mark.parametrize("method", [SPECTRAL, hd.VMI(form="pairwise")])
def test_compare__distinguishes_methods_by_their_options(codes, everything, method):
    assert everything[0][method.label] == hd.select(codes, None, T, method=method)


def test_compare__pairwise_methods_share_the_scans_of_one_method(codes):
    scans = []

    def listen(event):
        if isinstance(event, hd.ScanEnded):
            scans.append(event)

    together = hd.compare(codes, None, T, methods=PAIRWISE, callback=listen)
    assert len(scans) == T  # the marginal counts, and one scan per round except the last
    chosen = {pick for name in PAIRWISE for pick in together[name].indices[:-1].tolist()}
    assert sum(event.n_reductions for event in scans) == 1 + len(chosen)
    attrs = together.to_dataset().attrs
    assert (attrs["n_scans"], attrs["n_reductions"]) == (len(scans), 1 + len(chosen))


def test_compare__progress_shows_scans(codes, capsys):
    result = hd.compare(codes, None, 2, methods=["jmi", "mim"], progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[:2] for line in lines] == [["scan", "1"], ["scan", "2"]]
    assert "marginal-counts" in lines[0]
    assert "pair-terms" in lines[1]
    assert "jmi 1" in lines[1]
    assert "2 scans" in repr(result)


def test_compare__events_name_the_method(everything):
    ended = [event for event in everything[1] if isinstance(event, hd.RoundEnded)]
    for label in everything[0]:
        assert [event.rank for event in ended if event.method == label] == list(range(1, T + 1))


@pytest.mark.parametrize("chunks", [(97, 3), (N, 1), (1000, 4)])
def test_compare__is_the_same_for_any_chunks(tmp_path, chunks):
    methods = [*PAIRWISE, SPECTRAL]
    results = []
    for i, size in enumerate([(N, M), chunks]):
        store = hd.encode(X, Y, tmp_path / f"{i}", bins=None, target_kind="class", chunks=size)
        with dask.config.set(scheduler="synchronous" if i else "threads"):
            found = hd.compare(store, None, T, methods=methods, n_resamples=3).to_dataset()
        results.append(found.drop_attrs(deep=False))
    xr.testing.assert_identical(*results)


def test_compare__splits_scans_that_do_not_fit_with_the_same_result(codes, everything, monkeypatch):
    sizes = []
    run = scanning.run

    def counting(codes, scan, **keywords):
        sizes.append(len(scan))
        return run(codes, scan, **keywords)

    monkeypatch.setattr("hofs_dask.search.rounds.run", counting)
    # memory for the largest single reduction and little more
    n_codes = int(codes.n_codes.max())
    largest = Request(PAIR_COUNTS, PairContext(3, n_codes, by_fold=True))
    (worker,) = scanning.current_workers()
    needed = budget.estimate(codes, [largest], (worker,)).needed

    def tight(_scan):
        limit = int((needed + 100_000) / budget.USABLE)
        return (type(worker)("", worker.n_threads, limit, worker.resident),)

    monkeypatch.setattr(scanning, "current_workers", tight)
    result = hd.compare(codes, None, T, methods=list(hd.METHODS))
    assert max(sizes) < 8
    assert len(sizes) > 2 * T
    for name in hd.METHODS:
        assert result[name] == everything[0][name]


def test_compare__resumes_an_interrupted_run(codes, everything, tmp_path):
    class CutError(Exception):
        pass

    def stop(event):
        if isinstance(event, hd.RoundEnded) and event.rank == 3:
            raise CutError

    options = {"methods": ["jmi", "vmi", "hofs"], "n_resamples": 2, "checkpoint": tmp_path / "run"}
    with pytest.raises(CutError):
        hd.compare(codes, None, T, callback=stop, **options)
    events = []
    result = hd.compare(codes, None, T, callback=events.append, **options)
    started = [event for event in events if isinstance(event, hd.RoundStarted)]
    assert min(event.rank for event in started if event.method == "jmi") >= 3
    whole = hd.compare(codes, None, T, **(options | {"checkpoint": None}))
    for label in result:
        assert result[label] == whole[label] == everything[0][label]
    xr.testing.assert_identical(result.to_dataset()["stability"], whole.to_dataset()["stability"])


def test_compare__refuses_the_checkpoint_of_a_selection(codes, tmp_path):
    hd.select(codes, None, 1, method="mim", checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="of a single selection"):
        hd.compare(codes, None, 1, methods=["mim"], checkpoint=tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"methods": ["jim"]}, ValueError, "unknown method 'jim'; valid: 'jmim', 'njmim', 'mim'"),
        ({"methods": "jmi"}, TypeError, "give a list"),
        ({"methods": []}, ValueError, "methods is empty"),
        ({"methods": ["jmi", hd.JMI()]}, ValueError, "'jmi' is twice in methods"),
        ({"n_resamples": -1}, ValueError, "n_resamples is -1; give 0 or more"),
        ({"n_resamples": 1.5}, TypeError, "n_resamples is 1.5; give a whole number"),
    ],
)
def test_compare__bad_options_are_refused(codes, options, error, message):
    with pytest.raises(error, match=message):
        hd.compare(codes, None, 2, **options)


def test_resample__counts_every_row_as_many_times_as_it_is_drawn(codes):
    n_codes = int(codes.n_codes.max())
    context = PairContext(3, n_codes, by_fold=False)
    (total,) = scanning.run(codes, [Request(PAIR_COUNTS, context, (4,), resample=7)])
    n = codes.n_samples
    weights = multiplicity(np.arange(n, dtype=np.uint64), n, 7)
    cells = read_codes(codes, slice(0, M), slice(0, n))
    labels = read_labels(codes, slice(0, n))
    expected = np.zeros((M, n_codes, 3, n_codes), int)
    for i in range(M):
        np.add.at(expected[i], (cells[4], labels, cells[i]), weights)
    np.testing.assert_array_equal(total["counts"][:, 0], expected)


def test_resample__draws_blocks_of_rows_once_on_average():
    n = 5 * N_BLOCKS
    rows = np.arange(n, dtype=np.uint64)
    draws = np.array([multiplicity(rows, n, resample) for resample in range(50)])
    assert (draws.reshape(50, -1, 5) == draws[:, ::5, None]).all()
    # Poisson of mean 1: 51 200 draws, standard error below 0.005
    assert draws.mean() == pytest.approx(1, abs=0.02)
    assert draws[:, ::5].var() == pytest.approx(1, abs=0.05)
    # resamples are independent
    pairs = np.corrcoef(draws[:, ::5])[np.triu_indices(50, 1)]
    assert abs(pairs).max() < 0.2
    np.testing.assert_array_equal(multiplicity(rows[100:200], n, 3), draws[3, 100:200])


def test_stability__is_high_for_relevant_features_and_low_for_noise(codes):
    result = hd.compare(codes, None, 4, methods=["mim"], n_resamples=8).to_dataset()
    stability = result["stability"].sel({"method": "mim"}).values
    # x4 and its copies are most relevant; after these three, all is noise
    assert stability[2] == 1
    assert stability[3] < 1
    frequency = result["frequency"].sel({"method": "mim"}).values
    assert (frequency[[4, 5, 6]] == 1).all()


@pytest.mark.parametrize("kind", ["spectral", "conditional", "joint", "redundancy"])
def test_information_matrix__agrees_with_direct_computation(codes, kind):
    matrix = hd.information_matrix(codes, None, kind=kind)
    assert matrix.dims == ("feature", "other")
    assert matrix.attrs["units"] == "nats"
    rows = np.flatnonzero(~np.isnan(Y))
    x, y = X[rows], Y[rows]

    def entropy(*columns):
        counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)[1] / len(rows)
        return -(counts * np.log(counts)).sum()

    def given(i, j):
        return (
            entropy(x[:, i], x[:, j])
            + entropy(y, x[:, j])
            - entropy(x[:, j])
            - entropy(x[:, i], y, x[:, j])
        )

    expected = np.empty((M, M))
    for i, j in np.ndindex(M, M):
        relevance = entropy(x[:, i]) + entropy(y) - entropy(x[:, i], y)
        pair = entropy(x[:, i], x[:, j])
        expected[i, j] = {
            "spectral": relevance if i == j else (given(i, j) + given(j, i)) / 2,
            "conditional": given(i, j),
            "joint": pair + entropy(y) - entropy(x[:, i], x[:, j], y),
            "redundancy": entropy(x[:, i]) + entropy(x[:, j]) - pair,
        }[kind]
    np.testing.assert_allclose(matrix.values, expected, atol=1e-12)
    assert matrix.sel(feature="x1", other="x2").item() == pytest.approx(expected[1, 2])


def test_information_matrix__is_the_same_in_panels_and_tiles(tmp_path, codes, monkeypatch):
    whole = hd.information_matrix(codes, None)
    monkeypatch.setattr("hofs_dask.methods.pairwise.PANEL_BYTES", 3 * 8 * M * 3 * 16)
    store = hd.encode(X, Y, tmp_path / "s", bins=None, target_kind="class", chunks=(211, 3))
    events = []
    xr.testing.assert_identical(hd.information_matrix(store, None, callback=events.append), whole)
    assert sum(isinstance(event, hd.ScanEnded) for event in events) == 1 + 4


def test_information_matrix__refuses_an_unknown_kind(codes):
    with pytest.raises(ValueError, match="unknown kind of information_matrix 'mutual'; valid:"):
        hd.information_matrix(codes, None, kind="mutual")


def test_resample__excludes_a_feature_that_is_constant_in_it():
    """One sample differs, and a third of the resamples do not include it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    x[:, 3] = np.arange(60) == 30
    y = x[:, 0] > 0
    result = hd.compare(x, y, 4, methods=["jmi", "hofs"], include=["x3"], n_resamples=8)
    assert [name[0] for name in result.features.values()] == ["x3", "x3"]
    frequency = result.to_dataset()["frequency"].sel(feature="x3")
    assert ((frequency > 0) & (frequency < 1)).all()
