"""`--json` and `--output -`: every command prints JSON that scripts can read."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import hofs_dask as hd
from hofs_dask.cli import main

RNG = np.random.default_rng(2)
N = 400
Y = RNG.integers(0, 2, N)
X = RNG.normal(size=(N, 5))
X[:, 3] += 2 * Y


def printed(*arguments):
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def codes(tmp_path):
    return hd.encode(X, Y, tmp_path / "codes.zarr").path


@pytest.mark.parametrize("how", [["--json"], ["--output", "-"]])
def test_search__prints_the_ranks(codes, how):
    expected = hd.select(codes, None, 2, method="jmi")
    found = printed("select", codes, "--n-features", 2, "--method", "jmi", *how)
    assert [rank["feature"] for rank in found["ranks"]] == expected.features
    assert [rank["score"] for rank in found["ranks"]] == expected.scores.tolist()
    assert found["subsets"] == expected.subsets
    found = printed("compare", codes, "--n-features", 2, "--method", "jmi", "--method", "mim", *how)
    assert found["methods"]["jmi"]["ranks"][0]["feature"] == "x3"


@pytest.mark.parametrize("how", [["--json"], ["--output", "-"]])
def test_interactions__prints_the_tuples(codes, how):
    expected = hd.interactions(codes, None, top=3)
    found = printed("interactions", codes, "--top", 3, *how)
    names = [(row["feature_1"], row["feature_2"]) for row in found["tuples"]]
    assert names == expected.tuples


def test_matrix__prints_all_values(codes, tmp_path):
    expected = hd.information_matrix(codes, None)
    assert printed("matrix", codes, "--output", "-")["values"] == expected.values.tolist()
    found = printed("matrix", codes, "--json", "--output", tmp_path / "matrix.csv")
    assert found["features"] == ["x0", "x1", "x2", "x3", "x4"]
    assert (tmp_path / "matrix.csv").exists()
    assert printed("matrix", codes, "--json") == found


@pytest.mark.parametrize(
    "call",
    [
        ["select", "codes.zarr", "--n-features", 2, "--json"],
        ["compare", "codes.zarr", "--n-features", 2, "--output", "-"],
        ["interactions", "codes.zarr", "--json"],
        ["encode", "data.csv", "new.zarr", "--target", "y", "--json"],
    ],
)
def test_explain__prints_the_plan(codes, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=list("abcde")).assign(y=Y).to_csv("data.csv", index=False)
    plan = printed(*call, "--explain")
    assert plan["format"] == "hofs_dask plan"
    assert plan["layout"]["n_samples"] == N
    if call[0] == "encode":
        assert plan["encoding"]["n_written"] > 0
    else:
        assert plan["searching"]["memory"]["limit"] > plan["searching"]["memory"]["tasks"]


def test_encode_and_info__print_the_contents_of_a_store(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 3], "y": Y})
    frame.to_csv(tmp_path / "data.csv", index=False)
    store = tmp_path / "codes.zarr"
    found = printed("encode", tmp_path / "data.csv", store, "--target", "y", "--json")
    assert found == printed("info", store, "--json")
    assert found["features"] == ["a", "b"]
    assert found["counts"] == sorted(np.bincount(Y).tolist(), reverse=True)


@pytest.mark.parametrize("command", ["select", "compare", "interactions"])
def test_info__prints_what_the_command_printed(codes, tmp_path, command):
    count = ["--top", 3] if command == "interactions" else ["--n-features", 2]
    saved = tmp_path / "result.zarr"
    found = printed(command, codes, *count, "--json", "--output", saved)
    assert printed("info", saved, "--json") == found


def test_classes_and_notes__are_lists(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 3], "c": X[:, 3], "y": Y})
    frame.to_csv(tmp_path / "data.csv", index=False)
    found = printed("select", tmp_path / "data.csv", "--target", "y", "--n-features", 2, "--json")
    sizes = {str(label): count for label, count in enumerate(np.bincount(Y).tolist())}
    assert dict(found["classes"]) == sizes
    assert [note.partition(" is ")[2][:11] for note in found["notes"]] == ["a duplicate"]


@pytest.mark.parametrize("name", ["matrix.zarr", "matrix.nc"])
def test_load__reads_a_matrix(codes, tmp_path, name):
    printed("matrix", codes, "--kind", "joint", "--output", tmp_path / name, "--json")
    found, matrix = hd.load(tmp_path / name), hd.information_matrix(codes, None, kind="joint")
    np.testing.assert_array_equal(found.values, matrix.values)
    assert (found.name, found.dims) == (matrix.name, matrix.dims)
    assert found["feature"].values.tolist() == matrix["feature"].values.tolist()
    assert found.attrs == matrix.attrs


def test_load__says_what_to_do_with_a_code_store(codes):
    with pytest.raises(ValueError, match="is a code store, not a result: give its path to select"):
        hd.load(codes)


def test_info__prints_the_picks_of_a_checkpoint(codes, tmp_path):
    hd.select(codes, None, 2, method="jmi", checkpoint=tmp_path / "run")
    found = printed("info", tmp_path / "run", "--json")
    assert found["method"] == "jmi"
    assert found["picks"][0]["index"] == 3


@pytest.mark.parametrize(("command", "given"), [("select", "njm"), ("compare", "jmi,njm")])
def test_completion__of_method_names(command, given):
    from click.shell_completion import BashComplete

    from hofs_dask.cli.group import main

    complete = BashComplete(main, {}, "hofs-dask", "_HOFS_DASK_COMPLETE")
    found = complete.get_completions([command, "data.csv", "--method"], given)
    assert [each.value for each in found] == [f"{given}im"]
