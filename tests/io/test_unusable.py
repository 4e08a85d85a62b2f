"""Columns that cannot be used: named all at once, excluded, or skipped and reported."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source
from tests.cli.shell import run

N = 100
rng = np.random.default_rng(0)
Y = rng.integers(0, 2, N)
FRAME = pd.DataFrame(
    {
        "when": pd.date_range("2020", periods=N),
        "a": rng.normal(size=N) + Y,
        "wave": rng.normal(size=N).astype(complex),
        "id": [f"p{j}" for j in range(N)],
        "b": rng.normal(size=N),
        "far": np.where(np.arange(N) == 3, np.inf, 0.5),
        "y": Y,
    }
)

FRAMES = {
    "pandas": lambda frame: frame,
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
    "dict": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "arrow": lambda frame: pa.Table.from_pandas(frame.drop(columns="wave", errors="ignore")),
}


def bad_types(kind):
    return ["when", "wave"] if kind != "arrow" else ["when"]


@pytest.mark.parametrize("stored", [False, True])
def test_select__names_identifiers_and_duplicates(stored, tmp_path):
    frame = FRAME[["a", "b", "y"]].assign(
        copy=FRAME.a, minus=-2 * FRAME.a, number=np.arange(N) + 7, key=rng.permutation(N) * 3
    )
    frame["count"] = np.arange(N) // 2
    where = {"store": tmp_path / "codes"} if stored else {}
    result = hd.select(frame, "y", 2, method="mim", **where)
    assert result.to_dataset().attrs["notes"].splitlines() == [
        "number, key have different integers, as identifiers have; if they are, give "
        "exclude=['number', 'key']",
        "copy, minus are duplicates of 'a': the codes of each determine those of the other",
    ]


@pytest.mark.parametrize("kind", FRAMES)
def test_types__all_bad_columns_are_in_one_error(kind):
    with pytest.raises(TypeError, match="feature 'when' is .*: dates") as caught:
        open_source(FRAMES[kind](FRAME), "y")
    if kind != "arrow":
        assert str(caught.value).startswith("2 features cannot be used: feature 'when' is")
        assert "feature 'wave' is complex128: complex numbers" in str(caught.value)
        assert "exclude=['when', 'wave'] or on_bad='skip'" in str(caught.value)


@pytest.mark.parametrize("kind", FRAMES)
def test_exclude__applies_before_types_are_checked(kind):
    data = FRAMES[kind](FRAME)
    found = hd.select(data, "y", 1, exclude=[*bad_types(kind), "id", "far"])
    assert found.features == ["a"]
    positions = [0, 2, 3, 5] if kind != "arrow" else [0, 2, 4]
    assert hd.select(data, "y", 1, exclude=positions) == found
    with pytest.raises(TypeError, match="feature 'when'"):
        hd.select(data, "y", 1, exclude=["id", "far"])
    with pytest.raises(ValueError, match="unknown feature in exclude 'whom'"):
        hd.select(data, "y", 1, exclude=["whom"])


def test_values__all_bad_columns_are_in_one_error():
    with pytest.raises(ValueError, match="^2 features cannot be used: feature 'id' has a dis") as e:
        hd.select(FRAME, "y", 1, exclude=["when", "wave"])
    assert "feature 'far' contains 1 infinite values" in str(e.value)
    with pytest.raises(ValueError, match="^feature 'far' contains 1 infinite values; replace"):
        hd.select(FRAME, "y", 1, exclude=["when", "wave", "id"])


@pytest.mark.parametrize("kind", FRAMES)
def test_skip__reports_what_was_skipped_and_why(kind, tmp_path):
    found = hd.select(FRAMES[kind](FRAME), "y", 2, on_bad="skip", nominal=["when"])
    assert sorted(found.features) == ["a", "b"]
    good = hd.select(FRAME[["a", "b"]], FRAME["y"], 2)
    assert found.scores.tolist() == good.scores.tolist()
    notes = found.to_dataset().attrs["notes"].splitlines()
    assert [note.split("'")[1] for note in notes] == [*bad_types(kind), "id", "far"]
    assert notes[-1] == "skipped feature 'far', which contains 1 infinite values"
    assert "note: skipped feature 'id', which has a distinct value in each" in repr(found)
    with pytest.raises(ValueError, match="'when' is in include, but it cannot be used"):
        hd.select(FRAMES[kind](FRAME), "y", 2, on_bad="skip", include=["when"])


def test_skip__stores_differ_by_it_and_all_bad_is_an_error(tmp_path):
    data = FRAME[["a", "id", "y"]]
    codes = hd.encode(data, "y", tmp_path / "codes.zarr", on_bad="skip")
    assert codes.names == ("a",)
    again = hd.encode(data, "y", tmp_path / "codes.zarr", on_bad="skip")
    assert again.folder == codes.folder
    with pytest.raises(ValueError, match="feature 'id' has a distinct value"):
        hd.encode(data, "y", tmp_path / "codes.zarr")
    for column, error in (("id", ValueError), ("when", TypeError)):
        with pytest.raises(error, match=f"feature '{column}'"):
            hd.select(FRAME[[column, "y"]], "y", 1, on_bad="skip")
    with pytest.raises(ValueError, match="unknown on_bad 'drop'; valid: "):
        hd.select(FRAME, "y", 1, on_bad="drop")


#: Its first feature is skipped because of its values, so that positions in a code store are others
#: than in the data.
SHIFTED = pd.DataFrame(
    {
        "bad": np.where(np.arange(N) == 3, np.inf, rng.normal(size=N)),
        **{
            name: rng.normal(size=N) + Y * shift
            for name, shift in zip("cde", (2, 1, 0), strict=True)
        },
        "y": Y,
    }
)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("kind", FRAMES)
def test_skip__by_values_keeps_the_features_of_include_and_exclude(kind, stored, tmp_path):
    data = FRAMES[kind](SHIFTED)
    options = {"on_bad": "skip", **({"store": tmp_path / "codes"} if stored else {})}
    assert hd.select(data, "y", 3, include=["e"], **options).features == ["e", "c", "d"]
    assert hd.select(data, "y", 2, include=[3], exclude=["bad", "c"], **options).features == [
        "e",
        "d",
    ]
    assert hd.select(data, "y", 2, exclude=["c"], **options).features == ["d", "e"]
    compared = hd.compare(data, "y", 2, methods=["mim"], include=["e"], exclude=["c"], **options)
    assert compared.features == {"mim": ["e", "d"]}
    pairs = hd.interactions(data, "y", exclude=["d"], **options)
    assert pairs.tuples == [("c", "e")]


def test_skip__a_feature_of_include_that_is_skipped_by_its_values_is_an_error(tmp_path):
    match = "'bad' is in include, but it cannot be used and was skipped"
    for call in (hd.select, hd.compare):
        with pytest.raises(ValueError, match=match):
            call(SHIFTED, "y", 2, on_bad="skip", include=["bad"])
    parts = np.arange(N) < N // 2  # the infinite value is in one of them
    found = hd.select_by(SHIFTED, "y", 1, by=parts, on_bad="skip", include=["e"])
    assert found.features == {False: ["e"], True: ["e"]}
    with pytest.raises(ValueError, match=f"True: {match}"):
        hd.select_by(SHIFTED, "y", 1, by=parts, on_bad="skip", include=["bad"])
    SHIFTED.to_parquet(tmp_path / "x.parquet")
    call = ["select", tmp_path / "x.parquet", "--target", "y", "--n-features", 2]
    ran = run(*call, "--on-bad", "skip", "--include", "bad")
    assert ran.exit_code != 0
    assert match in ran.output


def test_many__bad_columns_are_counted():
    wide = pd.DataFrame({f"d{j}": FRAME["when"] for j in range(30)}).assign(a=FRAME["a"])
    with pytest.raises(TypeError, match=r"^30 features cannot .*; and 20 more\. Convert") as caught:
        open_source(wide, Y)
    assert len(str(caught.value)) < 2500
    assert len(open_source(wide, Y, Reading(on_bad="skip")).notes) == 30


def test_target__with_the_name_of_a_feature_is_warned_of():
    other = FRAME["a"].rename("b")
    with pytest.warns(UserWarning, match=r"target and a feature are both called 'b'.*\['b'\]"):
        open_source(FRAME[["a", "b"]], other > 0)
    open_source(FRAME[["a", "b"]], other > 0, exclude=["b"])
    with pytest.warns(UserWarning, match="both called 'b'"):
        hd.select(FRAME[["a", "b"]], other, 1)


def test_shell__excludes_and_skips(tmp_path):
    FRAME.drop(columns="wave").to_parquet(tmp_path / "x.parquet")
    call = ["select", tmp_path / "x.parquet", "--target", "y", "--n-features", 1]
    assert "feature 'when' is" in run(*call).output
    out = ["--exclude", "when", "--exclude", "id", "--exclude", "4"]
    assert "a" in run(*call, *out).output
    assert run(*call, *out).exit_code == 0
    skipping = run(*call, "--on-bad", "skip")
    assert skipping.exit_code == 0
    assert "skipped feature 'when'" in skipping.output


def test_dataset__without_bad_variables_is_unchanged():
    data = xr.Dataset({name: ("sample", FRAME[name].to_numpy()) for name in ("a", "b", "y")})
    assert open_source(data, "y").columns == ("a", "b")


def test_encode__leaves_out_excluded_features(tmp_path):
    some = FRAME.drop(columns=["wave", "far"])
    hd.encode(some[["a", "b", "y"]], "y", tmp_path / "one")
    codes = hd.encode(some, "y", tmp_path / "codes", exclude=["when", "id"])
    assert codes.names == ("a", "b")
    found = hd.select(codes, None, 2, method="jmi")
    alone = hd.select(tmp_path / "one", None, 2, method="jmi")
    assert found.features == alone.features
    np.testing.assert_array_equal(found.scores, alone.scores)
    # a store with other features is replaced, and one with the same features is kept
    fewer = hd.encode(some, "y", tmp_path / "codes", exclude=["when", "id", "b"])
    assert fewer.names == ("a",)
    again = hd.encode(some, "y", tmp_path / "codes", exclude=["b", "id", "when"])
    assert again.folder == fewer.folder
    with pytest.raises(ValueError, match="exclude names all features that can be used"):
        hd.encode(some, "y", tmp_path / "codes", exclude=["when", "id", "a", "b"])


def test_encode__of_the_shell_excludes_what_its_errors_name(tmp_path):
    FRAME.drop(columns=["wave", "far"]).to_parquet(tmp_path / "data.parquet")
    call = ["encode", tmp_path / "data.parquet", tmp_path / "codes", "--target", "y"]
    result = run(*call)
    assert result.exit_code == 1
    result = run(*call, "--exclude", "id")
    assert "feature 'when' is timestamp" in result.stderr
    result = run(*call, "--exclude", "id", "--exclude", "when", "--json")
    assert '"n_features": 2' in result.stdout


def test_errors__of_the_shell_name_options_of_the_shell(tmp_path):
    two = FRAME[["when", "a", "y"]].assign(later=FRAME["when"])
    two.to_parquet(tmp_path / "data.parquet")
    call = ["select", tmp_path / "data.parquet", "--target", "y", "--n-features"]
    assert "with --exclude when --exclude later or --on-bad skip" in run(*call, 1).stderr
    result = run(*call, 3, "--on-bad", "skip")
    assert result.stderr.startswith("Error: --n-features is 3 but only 1 features can be chosen")
