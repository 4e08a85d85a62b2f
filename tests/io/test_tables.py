"""Parquet and CSV files, Arrow data, and data frames that share it."""

import decimal
import gc
import sys
from pathlib import Path

import dask
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hofs_dask as hd
from hofs_dask.io import parquet, table, text_tables
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source
from tests.cli.shell import run

N = 200
rng = np.random.default_rng(0)


def frame() -> pd.DataFrame:
    """A frame with one column of every type that Arrow can hold."""
    x = rng.normal(size=(N, 3))
    return pd.DataFrame(
        {
            "float": x[:, 0],
            "single": x[:, 1].astype(np.float32),
            "int": rng.integers(0, 9, N).astype(np.int16),
            "nullable": pd.array([1, None, 3, 4] * (N // 4), dtype="Int64"),
            "flag": x[:, 2] > 0,
            "maybe": pd.array([True, None] * (N // 2), dtype="boolean"),
            "text": np.where(x[:, 0] > 0, "p", "q"),
            "gaps": pd.Series(["u", None, "w", "u"] * (N // 4), dtype=object),
            "category": pd.Categorical(["lo", "hi"] * (N // 2)),
            "numbers": pd.Categorical([3, 1, None, 1] * (N // 4)),
            "y": (x[:, 0] + rng.normal(size=N) > 0).astype(int),
        }
    )


FRAME = frame()


def columns(source):
    parts = [part.compute() for part in source.parts]
    return {
        name: column.tolist()
        for name, column in zip(
            source.names, (part[:, j] for part in parts for j in range(part.shape[1])), strict=True
        )
    }


def same(found, expected):
    """Whether two columns are equal, with NaN and None in the same places."""
    return len(found) == len(expected) and all(
        a == b or (a is None and b is None) or (a != a and b != b)
        for a, b in zip(found, expected, strict=True)
    )


def check_equal(source, frame=FRAME, target="y"):
    expected = open_source(frame, target)
    assert source.names == expected.names
    assert source.nominal.tolist() == expected.nominal.tolist()
    assert source.target_type == expected.target_type
    found, wanted = columns(source), columns(expected)
    for name in expected.names:
        assert same(found[name], wanted[name]), name
    assert np.array_equal(source.target.compute(), expected.target.compute())


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(table, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(text_tables, "TEXT_BYTES", 2000)


# Every kind

KINDS = {
    "parquet": lambda path: _parquet(path),
    "pattern": lambda path: _parquet(path).replace("x.parquet", "*.parquet"),
    "folder": lambda path: str(Path(_parquet(path)).parent),
    "table": lambda _: pa.Table.from_pandas(FRAME),
    "batch": lambda _: pa.RecordBatch.from_pandas(FRAME),
    "reader": lambda _: pa.Table.from_pandas(FRAME).to_reader(max_chunksize=7),
    "dataset": lambda path: ds.dataset(_parquet(path)),
    "dataset in memory": lambda _: ds.dataset(pa.Table.from_pandas(FRAME)),
    "feather dataset": lambda path: _feather(path),
    "polars": lambda _: pl.from_pandas(FRAME),
    "lazy": lambda _: pl.from_pandas(FRAME).lazy(),
}


def _parquet(path):
    FRAME.to_parquet(path / "x.parquet", row_group_size=30)
    return str(path / "x.parquet")


def _feather(path):
    FRAME.to_feather(path / "x.feather")
    return ds.dataset(path / "x.feather", format="feather")


@pytest.mark.parametrize("kind", KINDS)
def test_kind__has_the_content_and_types_of_the_pandas_frame(kind, tmp_path, small_blocks):
    check_equal(open_source(KINDS[kind](tmp_path), "y"), _expected(kind))


def _expected(kind):
    if kind not in ("polars", "lazy"):
        return FRAME
    # polars has no categories that are numbers
    return FRAME.assign(numbers=FRAME["numbers"].astype("Int64"))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files__are_cut_into_blocks_that_tasks_read(kind, tmp_path, small_blocks):
    path = _parquet(tmp_path)
    if kind == "csv":
        path = str(tmp_path / "x.csv")
        FRAME.to_csv(path, index=False)
    source = open_source(path, "y")
    assert len(source.parts[0].chunks[0]) > 3
    assert sum(source.parts[0].chunks[0]) == N
    assert hd.select(path, "y", 4).features == hd.select(FRAME, "y", 4).features


def test_select__gives_the_result_of_the_pandas_frame_to_the_last_bit(tmp_path, small_blocks):
    for kind in ("parquet", "polars"):
        expected = hd.select(_expected(kind), "y", 5)
        found = hd.select(KINDS[kind](tmp_path), "y", 5)
        assert found.features == expected.features
        assert found.scores.tolist() == expected.scores.tolist()


def test_target__is_an_array_or_a_series_of_the_frame():
    polars = pl.from_pandas(FRAME)
    for data, target in (
        (polars, polars["y"]),
        (pa.Table.from_pandas(FRAME), pa.Table.from_pandas(FRAME)["y"]),
    ):
        source = open_source(data, target)
        assert "y" not in source.names
        assert source.target_name == "y"
    source = open_source(polars.drop("y"), polars["y"])
    assert (source.target_name, source.target_type) == ("y", "integer")
    text = open_source(polars.drop("y", "gaps"), polars["gaps"])
    assert (text.target_type, text.target.compute()[1]) == ("nominal", None)
    assert open_source(FRAME[["float"]], pa.array(FRAME["y"])).target_name == "target"


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "polars"])
def test_series__with_another_index_than_the_rows_is_refused(kind, tmp_path):
    made = {
        "parquet": lambda: FRAME.to_parquet(tmp_path / "x.parquet") or tmp_path / "x.parquet",
        "csv": lambda: FRAME.to_csv(tmp_path / "x.csv", index=False) or tmp_path / "x.csv",
        "arrow": lambda: pa.Table.from_pandas(FRAME),
        "polars": lambda: pl.from_pandas(FRAME),
    }
    data, y = made[kind](), FRAME["y"].rename("z")
    other = y[::-1]
    words = r"of {} 'z' is not 0 to 199, .*; give {}\.to_numpy\(\) .*, or {}\.sort_index\(\)"
    with pytest.raises(ValueError, match=words.format("target", "target", "target")):
        open_source(data, other)
    with pytest.raises(ValueError, match="index of target 'z' is not 0 to 199"):
        open_source(data, other.to_frame())
    for role, values in (("groups", other), ("weights", other), ("where", other > 0)):
        with pytest.raises(ValueError, match=words.format(role, role, role)):
            open_source(data, "y", Reading(**{role: values}))
    for target in (y, other.sort_index(), y.to_numpy()):
        assert np.array_equal(open_source(data, target).target.compute(), y)
    assert np.array_equal(open_source(data, other.to_numpy()).target.compute(), y[::-1])
    with pytest.raises(ValueError, match="'z' has 199 values and the data has 200 samples"):
        open_source(data, y[1:])


def test_target__with_the_name_of_a_column_of_a_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not compared.* give target='y' or exclude="):
        open_source(_parquet(tmp_path), FRAME["y"])
    assert open_source(_parquet(tmp_path), FRAME["y"], exclude=["y"]).target_name == "y"


def test_groups__are_a_column_of_a_table(tmp_path):
    FRAME.assign(site=np.arange(N) // 10).to_parquet(tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", "y", Reading(groups="site", weights="int"))
    assert not {"site", "int"} & {*source.names}
    assert np.array_equal(source.groups.values.compute(), np.arange(N) // 10)
    with pytest.raises(ValueError, match="unknown column for groups 'sight'; valid: 'site'"):
        open_source(tmp_path / "x.parquet", "y", Reading(groups="sight"))


# Types


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([0] * 3, pa.timestamp("ms", "UTC")), r"timestamp\[ms, tz=UTC\]: dates; convert"),
        (pa.array([0] * 3, pa.date32()), r"date32\[day\]: dates; convert"),
        (pa.array([0] * 3, pa.duration("s")), r"duration\[s\]: durations; convert"),
        (pa.array([0] * 3, pa.time32("s")), r"time32\[m?s\]: convert it to numbers"),
        (pa.array([[1]] * 3), "list<.*: give each of its elements as a separate column"),
        (pa.array([{"a": 1}] * 3), "struct<.*: give each of its elements as a separate column"),
        (pa.array([b"a"] * 3), "binary: convert it to numbers or strings"),
    ],
    ids=["timestamp", "date", "duration", "time", "list", "struct", "binary"],
)
@pytest.mark.parametrize("in_file", [False, True])
def test_types__that_cannot_be_used_are_refused_by_name(column, words, in_file, tmp_path):
    data = pa.table({"good": [1, 2, 3], "bad": column})
    if in_file:
        pq.write_table(data, tmp_path / "x.parquet")
        data = tmp_path / "x.parquet"
    with pytest.raises(TypeError, match=f"feature 'bad' is {words}"):
        open_source(data, [0, 1, 0])
    with pytest.raises(TypeError, match=f"target 'bad' is {words}"):
        open_source(data, "bad")


def test_types__decimals_are_numbers_and_columns_of_nulls_are_missing():
    data = pa.table(
        {
            "cost": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]),
            "none": pa.nulls(3),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
            "key": pa.array([decimal.Decimal(4), decimal.Decimal(5), decimal.Decimal(4)]),
        }
    )
    source = open_source(data, "key")
    found = columns(source)
    assert same(found["cost"], [1.5, np.nan, 2.25])
    assert same(found["none"], [np.nan] * 3)
    assert found["half"] == [1, 2, 3]
    assert source.target_type == "integer"
    assert open_source(data.drop(["none"]), "cost").target_type == "number"


def test_types__integers_keep_their_type_only_without_missing_values(tmp_path):
    for missing, dtype in ((False, np.int32), (True, np.float64)):
        values = pa.array([1, None if missing else 2, 3], pa.int32())
        pq.write_table(pa.table({"a": values}), tmp_path / "x.parquet")
        assert open_source(tmp_path / "x.parquet", [0, 1, 0]).parts[0].dtype == dtype
    # without statistics nothing is known
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "x.parquet", write_statistics=False)
    assert open_source(tmp_path / "x.parquet", [0, 1, 0]).parts[0].dtype == np.float64


# Parquet


def test_parquet__small_files_share_a_block_and_wide_row_groups_are_cut(tmp_path, monkeypatch):
    wide = pd.DataFrame(rng.normal(size=(100, 12)), columns=[f"c{j}" for j in range(12)])
    for number in range(4):
        wide[number * 25 : (number + 1) * 25].to_parquet(tmp_path / f"{number}.parquet")
    whole = open_source(tmp_path, np.arange(100) % 2)
    assert whole.parts[0].chunks == ((100,), (12,))
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 50 * 12 * 8)
    monkeypatch.setattr(table, "BLOCK_BYTES", 50 * 5 * 8)
    cut = open_source(tmp_path, np.arange(100) % 2)
    assert cut.parts[0].chunks == ((50, 50), (5, 5, 2))
    assert np.array_equal(cut.parts[0].compute(), wide.to_numpy())


def test_parquet__partitions_are_columns(tmp_path):
    data = pd.DataFrame({"a": rng.normal(size=60), "year": [2020, 2021] * 30, "kind": ["u"] * 60})
    data.to_parquet(tmp_path / "data", partition_cols=["year", "kind"])
    (tmp_path / "data" / "_SUCCESS").touch()
    (tmp_path / "data" / "notes.txt").write_text("not data")
    for path in (tmp_path / "data", f"{tmp_path}/data/*/*/*.parquet"):
        source = open_source(path, [0, 1] * 30)
        assert source.names == ("a", "year", "kind")
        assert source.nominal.tolist() == [False, False, True]
        assert columns(source)["year"] == [2020] * 30 + [2021] * 30
        assert columns(source)["a"] == [*data["a"][::2], *data["a"][1::2]]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("folder", "value"),
    [("kind=__HIVE_DEFAULT_PARTITION__", None), ("other", None), ("kind=3", 3), ("kind=c%20d", 0)],
)
def test_partitions__may_be_missing_and_are_read_alike(suffix, folder, value, tmp_path):
    data = pd.DataFrame({"a": [1.5, 2.5]})
    for name in ("kind=2", folder):
        (tmp_path / name).mkdir()
        getattr(data, f"to_{suffix}")(tmp_path / name / f"x.{suffix}", index=False)
    source = open_source(tmp_path, [0, 1] * 2)
    assert source.names == ("a", "kind")
    found = {("c d" if value == 0 else value), ("2" if value == 0 else 2)}
    assert {None if each != each else each for each in columns(source)["kind"]} == found
    assert source.nominal.tolist() == [False, value == 0]
    assert open_source(tmp_path, "kind").names == ("a",)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("value", [1, 1.0, "1", np.int8(1)])
def test_partitions__that_are_also_in_the_files_have_the_same_values(suffix, value, tmp_path):
    def write(**more):
        frame = pd.DataFrame({"a": [1.5, 2.5], "k": [value, value], **more})
        getattr(frame, f"to_{suffix}")(tmp_path / "k=1" / f"x.{suffix}", index=False)

    (tmp_path / "k=1").mkdir()
    write()
    source = open_source(tmp_path, [0, 1])
    assert source.names == ("a", "k")
    assert [float(each) for each in columns(source)["k"]] == [1, 1]
    write(k=[value, type(value)(5)])
    words = r"k=1/x.*' has a column 'k' with the value '?5.*folder is called 'k=1'; write the files"
    with pytest.raises(ValueError, match=words):
        open_source(tmp_path, [0, 1])
    if suffix == "parquet" and type(value) is int:
        partitioning = ds.partitioning(pa.schema({"k": pa.int64()}), flavor="hive")
        with pytest.raises(ValueError, match=words):
            open_source(ds.dataset(tmp_path, partitioning=partitioning), [0, 1])


def test_parquet__the_index_of_pandas_is_no_feature(tmp_path):
    data = FRAME[["float", "y"]].set_index(pd.Index(np.arange(N) * 7, name="id"))
    data.to_parquet(tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet", "y").names == ("float",)


def test_parquet__types_of_files_are_joined_and_other_columns_refused(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [0.5, 1.5], "a": [3, 4]}), tmp_path / "2.parquet")
    found = columns(open_source(tmp_path, [0, 1, 0, 1]))
    assert found == {"a": [1, 2, 3, 4], "b": [1, 2, 0.5, 1.5]}
    pq.write_table(pa.table({"a": [1], "c": [1]}), tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"'.*3\.parquet' and '.*1\.parquet' .* has b, c; give"):
        open_source(tmp_path, [0, 1, 0, 1, 0])
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / "3.parquet")
    with pytest.raises(TypeError, match="a column has different types in the files"):
        open_source(tmp_path, [0, 1, 0, 1, 0])


@pytest.mark.parametrize("names", ["12", "21"])
def test_parquet__a_column_that_is_categorical_in_one_file_is_nominal(names, tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / f"{names[0]}.parquet")
    pd.DataFrame({"a": pd.Categorical([3, 2])}).to_parquet(tmp_path / f"{names[1]}.parquet")
    source = open_source(tmp_path, [0, 1, 0, 1])
    assert source.nominal.tolist() == [True]
    assert sorted(columns(source)["a"]) == [1, 2, 2, 3]


def test_parquet__a_filtered_dataset_keeps_its_filter(tmp_path):
    data = ds.dataset(_parquet(tmp_path)).filter(ds.field("float") > 0)
    check_equal(open_source(data, "y"), FRAME[FRAME["float"] > 0].reset_index(drop=True))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda _: None, "no such path: .*; give a Parquet or CSV file"),
        (lambda path: (path / "data").mkdir(), "is empty; give a folder of Parquet or CSV files"),
        (lambda path: _delta(path), r"is a Delta table.*DeltaTable\(path\)"),
        (lambda path: _two_kinds(path), r"2 files that end with .csv, .parquet; give files of one"),
    ],
    ids=["absent", "empty", "delta", "two kinds"],
)
def test_paths__that_are_no_table_are_refused(write, words, tmp_path):
    write(tmp_path)
    path = tmp_path / "data" if (tmp_path / "data").exists() else tmp_path / "x.parquet"
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        open_source(path, "y")
    with pytest.raises(FileNotFoundError, match=r"no files match .*/none\*\.parquet"):
        open_source(tmp_path / "none*.parquet", "y")


def _delta(path):
    (path / "data" / "_delta_log").mkdir(parents=True)


def _two_kinds(path):
    (path / "data").mkdir()
    _parquet(path / "data")
    FRAME.to_csv(path / "data" / "x.csv")


TWICE = pa.table([pa.array([1, 2])] * 3, names=["a", "b", "b"])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda _: TWICE, "the Table"),
        (lambda _: TWICE.to_reader(), "the RecordBatchReader"),
        (lambda _: ds.dataset(TWICE), "the InMemoryDataset"),
        (lambda path: pq.write_table(TWICE, path / "2.parquet") or path, r"'.*2\.parquet'"),
        (lambda path: _write_single(path) or path, r"'.*2\.parquet'"),
    ],
    ids=["table", "reader", "dataset", "file", "second file"],
)
def test_columns__with_one_name_are_refused_by_name(make, what, tmp_path):
    with pytest.raises(ValueError, match=f"two columns of {what} are called 'b'; rename one"):
        open_source(make(tmp_path), [0, 1])


def _write_single(path):
    pq.write_table(TWICE, path / "2.parquet")
    pq.write_table(TWICE.select([0, 1]), path / "1.parquet")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: pq.write_table(TWICE[:0].select([0, 1]), path / "x.parquet") or path,
        lambda path: ds.dataset(path, format="parquet"),
        lambda _: TWICE[:0].select([0, 1]).to_reader(),
        lambda _: pl.LazyFrame({"a": []}),
    ],
    ids=["file", "dataset without files", "reader", "lazy frame"],
)
@pytest.mark.parametrize("target", [[], "a"])
def test_table__without_rows_is_refused(make, target, tmp_path):
    with pytest.raises(ValueError, match="the data has 0 rows; give a table with rows"):
        open_source(make(tmp_path), target)


# CSV


def written_csv(path, text):
    path.write_text(text)
    return path


@given(
    cells=st.lists(
        st.tuples(
            st.text(alphabet='ab,"\n;', max_size=6),
            st.one_of(st.integers(-50, 50), st.floats(-9, 9), st.none()),
        ),
        min_size=2,
        max_size=40,
    ),
    size=st.integers(5, 200),
)
@settings(max_examples=60, deadline=None)
def test_csv__any_text_is_read_as_pandas_reads_it(cells, size, tmp_path_factory):
    """Blocks may begin anywhere: inside of quotes, in a line end, in the header."""
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    pd.DataFrame(cells, columns=["text, or\nnot", "n"]).assign(k=range(len(cells))).to_csv(
        path, index=False
    )
    expected = pd.read_csv(path, keep_default_na=False, na_values=[""])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tables, "TEXT_BYTES", size)
        found = columns(open_source(path, np.arange(len(cells)) % 2))
    for name in expected.columns:
        values = expected[name].astype(object).where(expected[name].notna(), None).tolist()
        own = [None if each is None or each != each else each for each in found[name]]
        assert own == values


def test_csv__types_are_those_of_all_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "TEXT_BYTES", 40)
    rows = [f"{i},{i},{i},,{'true' if i < 20 else 'x'}" for i in range(40)]
    rows[30] = "30,30.5,text,,x"
    rows[35] = "35,,35,,x"
    path = written_csv(tmp_path / "x.csv", "\n".join(["int,float,text,none,flag", *rows]))
    source = open_source(path, np.arange(40) % 2)
    found = columns(source)
    assert source.nominal.tolist() == [False, False, True, False, True]
    assert found["int"] == list(range(40))
    assert (found["float"][30], np.isnan(found["float"][35])) == (30.5, True)
    assert found["text"][29:31] == ["29", "text"]
    assert np.isnan(found["none"]).all()
    assert {*found["flag"]} == {"true", "x"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["true", "false", "1", "0"], ["true", "false", "1", "0"]),
        (["0", "1", "TRUE", "False"], ["0", "1", "TRUE", "False"]),
        (["0", "1", "1", "0"], [0, 1, 1, 0]),
        (["true", "False", "TRUE", "false"], [True, False, True, False]),
    ],
)
@pytest.mark.parametrize("size", [10, 25, 10**6])
def test_csv__types_do_not_depend_on_the_limits_of_blocks(values, expected, size, tmp_path):
    rows = [f"{i},{value}" for i, value in enumerate(values)]
    path = written_csv(tmp_path / "x.csv", "\n".join(["n,a", *rows]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tables, "TEXT_BYTES", size)
        source = open_source(path, [0, 1] * 2)
    assert columns(source)["a"] == expected
    assert source.nominal.tolist() == [False, isinstance(expected[0], str | bool)]


@pytest.mark.parametrize("size", [10, 10**6])
def test_csv__times_and_dates_are_text_in_blocks_of_any_size(size, tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "TEXT_BYTES", size)
    path = written_csv(tmp_path / "x.csv", "a\n10:30:00\n2020-01-01\n")
    assert open_source(path, [0, 1]).nominal.tolist() == [True]


def test_csv__several_files_may_have_their_columns_in_any_order(tmp_path):
    written_csv(tmp_path / "1.csv", "a,b\n1,2\n")
    written_csv(tmp_path / "2.csv", "b,a\n4,3\n\n")
    assert columns(open_source(tmp_path, [0, 1])) == {"a": [1, 3], "b": [2, 4]}
    written_csv(tmp_path / "3.csv", "b,c\n4,3\n")
    with pytest.raises(ValueError, match="different columns: only one of them has a, c"):
        open_source(tmp_path, [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; give a file with a header and rows"),
        ("a,b\n", "has a header and no rows"),
        ("a,a\n1,2\n", "two columns of .* are called 'a'"),
        ("a,b\r1,2\r", "some lines of .* end with a carriage return alone; write the file"),
        ("a;b\n1;2\n", r"has one column, 'a;b'; .*sep=';'"),
        ("a,b\n1,2\n1,2,3\n", r"cannot be read as CSV, between its bytes 4 and 14 \(.*Expected 2"),
    ],
)
def test_csv__that_cannot_be_read_is_refused(text, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        open_source(written_csv(tmp_path / "x.csv", text), [0, 1])


@pytest.mark.parametrize(
    ("encoding", "header", "words"),
    [
        ("utf-16", "a,b", "because its first line is not"),
        ("utf-16-le", "a,b", "because its first line is not"),
        ("latin-1", "a,\xe9", "because its first line is not"),
        ("latin-1", "a,b", "because the text of its column 'b' is not"),
    ],
)
@pytest.mark.parametrize("size", [10, 10**6])
def test_csv__in_another_encoding_is_refused(encoding, header, words, size, tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "TEXT_BYTES", size)
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n1,u\n2,v\n3,w\n4,t\xe9\n", encoding)
    with pytest.raises(ValueError, match=f"is not a file in UTF-8, {words}; .*encoding='latin-1'"):
        open_source(path, [0, 1] * 2)
    path.write_text(path.read_text(encoding), "utf-8-sig")
    assert open_source(path, [0, 1] * 2).n_features == 2


def test_csv__dates_are_refused_with_advice(tmp_path):
    path = written_csv(tmp_path / "x.csv", "a,when\n1,2020-01-01\n2,2020-01-02 10:00:00\n")
    with pytest.raises(TypeError, match=r"feature 'when' is timestamp\[.*convert it to numbers"):
        open_source(path, [0, 1])


# Fingerprints, remote storage, temporary files


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_fingerprint__changes_with_the_files(suffix, tmp_path):
    def write(frame, name):
        getattr(frame, f"to_{suffix}")(tmp_path / f"{name}.{suffix}", index=False)

    write(FRAME, "1")
    first = open_source(tmp_path, "y")
    assert open_source(tmp_path, "y").fingerprint == first.fingerprint
    assert first.state() == first.opened_state
    write(FRAME, "2")
    more = open_source(tmp_path, "y")
    write(FRAME.assign(y=0), "2")
    other = open_source(tmp_path, "y")
    assert len({each.fingerprint for each in (first, more, other)}) == 3
    assert len({each.target_fingerprint for each in (first, more, other)}) == 3
    assert more.state() != more.opened_state
    (tmp_path / f"2.{suffix}").unlink()
    assert other.state() != other.opened_state


def test_store__of_a_file_is_reused_and_must_not_be_in_its_folder(tmp_path):
    (tmp_path / "data").mkdir()
    path = _parquet(tmp_path / "data")
    first = hd.encode(path, "y", tmp_path / "codes.zarr")
    assert hd.encode(path, "y", tmp_path / "codes.zarr").folder == first.folder
    with pytest.raises(ValueError, match="store is .* which is inside the data at"):
        hd.encode(tmp_path / "data", "y", tmp_path / "data" / "codes.zarr")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_remote__files_are_read_through_fsspec(suffix, small_blocks):
    files = fsspec.filesystem("memory")
    for number in range(2):
        with files.open(f"/tables/{suffix}/year={number}/x.{suffix}", "wb") as stream:
            half = FRAME[["float", "text", "y"]][number * 100 : (number + 1) * 100]
            getattr(half, f"to_{suffix}")(stream, index=False)
    expected = FRAME[["float", "text", "y"]]
    try:
        for path in (f"memory://tables/{suffix}", f"memory://tables/{suffix}/*/*.{suffix}"):
            source = open_source(path, "y")
            assert source.names == ("float", "text", "year")
            assert columns(source)["year"] == [0] * 100 + [1] * 100
            assert columns(source)["float"] == expected["float"].tolist()
            assert source.fingerprint is None  # the files of this storage have no versions
    finally:
        files.rm("/tables", recursive=True)


def test_lazy_frame__is_written_to_a_temporary_file_that_is_removed(tmp_path):
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        source = open_source(pl.from_pandas(FRAME).lazy(), "y")
        assert [*tmp_path.glob("*/*.parquet")]
        del source
        gc.collect()
        assert not [*tmp_path.iterdir()]
        found = hd.select(pl.from_pandas(FRAME).lazy().select("float", "int", "y"), "y", 1)
        assert found.features == ["float"]
        gc.collect()
        assert not [*tmp_path.iterdir()]


# Transform, shell, missing library


def test_transform__returns_the_type_that_was_given(tmp_path):
    found = hd.select(FRAME, "y", 2)
    polars = pl.from_pandas(FRAME)
    assert polars.lazy().pipe(found.transform).collect().equals(polars.select(found.features))
    assert found.transform(polars).equals(polars.select(found.features))
    arrow = pa.Table.from_pandas(FRAME)
    assert found.transform(arrow).equals(arrow.select(found.features))
    dataset = found.transform(ds.dataset(_parquet(tmp_path)))
    assert isinstance(dataset, ds.Dataset)
    assert dataset.to_table().to_pydict() == arrow.select(found.features).to_pydict()
    for data in (polars.drop(found.features[0]), arrow.drop([found.features[0]])):
        with pytest.raises(ValueError, match=f"the features {found.features[0]} are not among"):
            found.transform(data)


def test_shell__encodes_and_selects_from_files(tmp_path):
    _parquet(tmp_path)
    codes = str(tmp_path / "codes.zarr")
    assert "10 features" in run("encode", f"{tmp_path}/*.parquet", codes, "--target", "y").output
    expected = hd.select(FRAME, "y", 2).features
    assert hd.select(codes, None, 2).features == expected
    found = run("select", str(tmp_path / "x.parquet"), "--target", "y", "--n-features", "2")
    assert expected[0] in found.output


def test_pyarrow__that_is_not_installed_is_named(monkeypatch, tmp_path):
    path = _parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'hofs-dask\[tabular\]'"):
        open_source(path, "y")


def test_damaged_parquet_file__is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no footer")
    with pytest.raises(ValueError, match=r"damaged Parquet file; write it again .*a\.parquet"):
        hd.select(tmp_path, "y", 1)


@pytest.mark.parametrize("name", ["x.csv.gz", "X.CSV", "x.txt", "x.feather", "folder/x.csv.gz"])
def test_path__with_an_unknown_suffix_is_an_error_that_lists_the_known_ones(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("a,b\n1,2\n")
    words = r"end with \.parquet, \.pq, \.parq, \.csv, \.tsv; compressed CSV is not supported"
    with pytest.raises(ValueError, match=words):
        open_source(tmp_path / name.split("/")[0], "a")


def test_empty_folder__is_an_error_that_says_so(tmp_path):
    with pytest.raises(ValueError, match="is empty; give a folder of Parquet or CSV files, or"):
        hd.select(tmp_path, "y", 1)
