"""The file of a checkpoint: exact, sealed, and safe to read from an untrusted source."""

import json
import os
import re
import stat
import tracemalloc
import zipfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hofs_dask as hd
from hofs_dask.cli.info import describe
from hofs_dask.search.checkpoint import FILE, read_checkpoint
from hofs_dask.search.snapshot_file import decode, encode
from tests.search.checkpoints import (
    assert_same,
    at_most,
    damage,
    forge,
    forged,
    opened,
    table,
    with_members,
)

METHODS = {
    "joint": hd.HOFS(),
    "sum": hd.HOFS("sum"),
    "jmi": hd.JMI(),
    "vmi": hd.VMI(form="pairwise"),
}
N_CHOSEN = 4


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    x, y = table()
    return hd.encode(x, y, tmp_path_factory.mktemp("table") / "codes.zarr", nominal=["x4"])


@pytest.fixture(scope="module")
def contents(codes, tmp_path_factory):
    """The checkpoint of each method after some rounds."""
    folder = tmp_path_factory.mktemp("contents")
    for name, method in METHODS.items():
        hd.select(codes, None, N_CHOSEN, method=method, checkpoint=folder / name)
    return {name: (folder / name / FILE).read_bytes() for name in METHODS}


# Encoding and decoding


@given(
    hnp.arrays(
        st.sampled_from([np.int64, np.uint8, np.int16, np.float64, bool]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.randoms(use_true_random=False),
)
def test_codec__arrays_and_their_memory_order_round_trip_exactly(array, random):
    axes = list(range(array.ndim))
    random.shuffle(axes)
    array = array.transpose(axes)
    arrays = {}
    tree = json.loads(json.dumps(encode(array, arrays)))
    assert_same(decode(tree, arrays), array)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3).map(tuple),
        max_leaves=8,
    )
)
def test_codec__plain_values_round_trip_exactly(value):
    tree = json.loads(json.dumps(encode(value, {})))
    assert_same(decode(tree, {}), value)


def test_codec__counts_use_the_smallest_type_and_repeated_numbers_one_item():
    arrays = {}
    zeros = np.broadcast_to(np.int64(0), (1000, 4, 30, 3, 30))
    counts = (np.array([[0, 255]]), np.array([256]), np.array([70_000]), np.array([-1]), zeros)
    tree = encode(counts, arrays)
    kept = [arrays[str(i)] for i in range(5)]
    assert [array.dtype.name for array in kept] == ["uint8", "uint16", "uint32", "int64", "uint8"]
    assert kept[4].size == 1
    back = decode(json.loads(json.dumps(tree)), arrays)
    assert_same(back, counts)
    assert not any(back[4].strides)


def test_codec__other_types_are_refused():
    with pytest.raises(TypeError, match="cannot hold a dict"):
        encode(({},), {})
    with pytest.raises(KeyError):
        decode({"record": "Path", "fields": {}}, {})


# Damage


def test_truncated_file__error_names_the_file(codes, contents, tmp_path):
    content = contents["joint"]
    for size in (0, 1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / FILE).write_bytes(content[:size])
        message = re.escape(f"{str(tmp_path / FILE)!r} cannot be")
        with pytest.raises(hd.CheckpointError, match=message):
            hd.select(codes, None, 2, checkpoint=tmp_path)
        assert (tmp_path / FILE).stat().st_size == size


@pytest.mark.parametrize("method", METHODS)
def test_damage__is_detected_or_harmless(contents, method, tmp_path):
    (tmp_path / FILE).write_bytes(contents[method])
    run, snapshot = read_checkpoint(tmp_path)
    rng = np.random.default_rng(0)
    detected, harmless = Counter(), Counter()
    for _ in range(150):
        kind, content = damage(contents[method], rng)
        (tmp_path / FILE).write_bytes(content)
        try:
            found = read_checkpoint(tmp_path)
        except hd.CheckpointError:
            detected[kind] += 1
        else:  # damage to zip dates, or to types and shapes that the reader ignores
            assert found[0] == run
            assert_same(found[1], snapshot)
            harmless[kind] += 1
    assert set(detected) >= {"flip", "cut", "zeros", "swap", "lose", "add", "text"}
    assert harmless.total() < detected.total() / 3


def test_flipped_bit__with_a_matching_zip_checksum_is_detected(contents, tmp_path):
    def flip(members):
        largest = max(members, key=lambda name: len(members[name]) * (name != "json.npy"))
        members[largest] = members[largest][:-1] + bytes([members[largest][-1] ^ 1])

    (tmp_path / FILE).write_bytes(with_members(contents["sum"], flip))
    with pytest.raises(hd.CheckpointError, match="differs from its sha256 in the text"):
        read_checkpoint(tmp_path)


# Forged files


@pytest.mark.parametrize("method", METHODS)
def test_forgery__is_refused_or_has_valid_types(contents, method, tmp_path):
    rng = np.random.default_rng(1)
    refused = Counter()
    for _ in range(150):
        kind, content = forge(contents[method], rng)
        (tmp_path / FILE).write_bytes(content)
        try:
            with at_most(seconds=5):
                read_checkpoint(tmp_path)
        except hd.CheckpointError:
            refused[kind] += 1
    assert set(refused) == {"node", "lose", "repeat", "rename", "array", "manifest"}


def pick_twice(text, _):
    fields = text["tree"]["fields"]
    fields["picks"][1]["fields"]["index"] = fields["picks"][0]["fields"]["index"]


def pick_past_the_features(text, _):
    text["tree"]["fields"]["picks"][1]["fields"]["index"] = 9


def other_picks_in_the_state(text, _):
    text["tree"]["fields"]["state"]["fields"]["chosen"].reverse()


def parent_that_is_none(text, arrays):
    arrays[array_of(text, "pair_parent")][:] = 100


def parent_that_comes_later(text, arrays):
    rows = text["tree"]["fields"]["state"]["fields"]["rows"]
    name = next(
        row["fields"]["parents"]["array"] for row in rows if row["fields"]["kind"] != "table"
    )
    arrays[name] = np.full_like(arrays[name], 200)


def fewer_cells_in_a_row(text, arrays):
    row = text["tree"]["fields"]["state"]["fields"]["rows"][0]["fields"]
    arrays[row["table"]["array"]] = arrays[row["table"]["array"]][..., :1]


def affinity_of_fewer_features(text, arrays):
    name = array_of(text, "affinity")
    arrays[name] = arrays[name][:, :-1]


def score_that_is_not_a_number(text, arrays):
    arrays[array_of(text, "earlier")][0] = np.nan


def counts_below_zero(text, arrays):
    name = text["tree"]["fields"]["counts"]["array"]
    arrays[name] = -arrays[name].astype(np.int64)


def counts_without_memory(text, arrays):
    node = text["tree"]["fields"]["counts"]
    arrays[node["array"]] = np.array(1, np.uint8)
    node |= {"axes": [], "shape": [2**30, 4, 100, 100]}


def one_array_for_all(text, _):
    node = text["tree"]["fields"]["counts"]
    text["tree"]["fields"]["picks"] = [node] * 10_000


def state_of_no_method(text, _):
    text["tree"]["fields"]["state"] = None


def array_of(text, name):
    return text["tree"]["fields"]["state"]["fields"][name]["array"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pick_twice, "Snapshot.picks has a feature twice"),
        (pick_past_the_features, "Pick.index is not from 0 to 8"),
        (other_picks_in_the_state, "JointState.chosen differs from Snapshot.picks"),
        (parent_that_is_none, "JointState.pair_parent has values that are not from -1 to"),
        (parent_that_comes_later, "PosteriorRow.parents has values that are not from 0 to"),
        (fewer_cells_in_a_row, "PosteriorRow.table has shape"),
        (affinity_of_fewer_features, "JointState.affinity has shape (3, 8), not (3, 9)"),
        (score_that_is_not_a_number, "JointState.earlier has values that are not from"),
        (counts_below_zero, "Snapshot.counts has values that are not from 0"),
        (counts_without_memory, "Snapshot.counts is a repeated number"),
        (one_array_for_all, "cannot be read"),
        (state_of_no_method, "Snapshot.state is a NoneType"),
    ],
)
def test_forgery__with_inconsistent_fields_is_refused(codes, contents, change, message, tmp_path):
    text, arrays = opened(contents["joint"])
    change(text, arrays)
    (tmp_path / FILE).write_bytes(forged(text, arrays))
    with pytest.raises(hd.CheckpointError, match=re.escape(message)):
        hd.select(codes, None, 6, checkpoint=tmp_path)


def test_forgery__of_another_store_or_method_is_refused(codes, contents, tmp_path):
    text, _ = opened(contents["joint"])
    other, arrays = opened(contents["sum"])
    (tmp_path / FILE).write_bytes(forged({**other, "run": text["run"]}, arrays))
    with pytest.raises(hd.CheckpointError, match="its state is a TotalState, not a JointState"):
        hd.select(codes, None, 6, checkpoint=tmp_path)
    x, y = table(n_features=8)
    fewer = hd.encode(x, y, tmp_path / "codes.zarr", nominal=["x4"])
    hd.select(fewer, None, 2, checkpoint=tmp_path / "fewer")
    text, arrays = opened((tmp_path / "fewer" / FILE).read_bytes())
    run = opened(contents["joint"])[0]["run"]
    (tmp_path / "fewer" / FILE).write_bytes(forged({**text, "run": run}, arrays))
    with pytest.raises(hd.CheckpointError, match=re.escape("its counts have shape (8, 4, 3, ")):
        hd.select(codes, None, 6, checkpoint=tmp_path / "fewer")


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_forgery__with_scores_that_are_nan_ends_with_the_remedy(codes, contents, tmp_path):
    text, arrays = opened(contents["vmi"])
    row = text["tree"]["fields"]["state"]["fields"]["rows"][1]["fields"]
    arrays[row["table"]["array"]][:] = -np.inf
    (tmp_path / FILE).write_bytes(forged(text, arrays))
    with pytest.raises(
        ValueError, match="the best score is nan, .* remove the checkpoint to start over"
    ):
        hd.select(codes, None, 6, method=METHODS["vmi"], checkpoint=tmp_path)


def test_forgery__is_described_without_control_characters(contents, tmp_path):
    text, arrays = opened(contents["jmi"])
    text["run"] += [["note\x1b[2J", "\ud800\x07"], ["other", {"a": [1]}]]
    (tmp_path / FILE).write_bytes(forged(text, arrays))
    lines = describe(str(tmp_path)).splitlines()
    assert all(line.isprintable() for line in lines)
    assert r"  'note\x1b[2J'       '\ud800\x07'" in lines


@pytest.mark.parametrize("version", [5, 7])
def test_other_version_of_the_format__error_names_the_version(contents, version, tmp_path):
    text, arrays = opened(contents["jmi"])
    (tmp_path / FILE).write_bytes(forged({**text, "version": version}, arrays))
    with pytest.raises(hd.CheckpointError, match=f"it is version {version} of the format"):
        read_checkpoint(tmp_path)


# Bombs, pipes, devices, links


def peak_of_refusal(directory, message):
    """Return the peak memory of refusing a checkpoint."""
    tracemalloc.start()
    try:
        with at_most(seconds=10), pytest.raises(hd.CheckpointError, match=message):
            read_checkpoint(directory)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bomb__of_compressed_zeros_is_refused_before_reading(contents, tmp_path):
    def grow(members):
        members["0.npy"] += bytes(50 * 2**20)

    content = with_members(contents["jmi"], grow, zipfile.ZIP_DEFLATED)
    (tmp_path / FILE).write_bytes(content)
    assert len(content) < 2**20
    assert peak_of_refusal(tmp_path, "has a compressed member") < 2**20


def test_bomb__of_a_huge_shape_is_refused_before_reading(contents, tmp_path):
    text, arrays = opened(contents["jmi"])
    huge = {"0": {"dtype": "<f8", "shape": [2**33], "sha256": "0" * 64}}
    (tmp_path / FILE).write_bytes(forged(text, arrays, huge))
    assert peak_of_refusal(tmp_path, "shorter than the text says") < 2**20


def test_bomb__of_overlapping_members_is_refused_before_reading(tmp_path):
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        for i in range(3):
            archive.writestr(f"{i}.npy", bytes(1000))
    content = bytearray((tmp_path / "whole.zip").read_bytes())
    place = content.index(b"PK\x01\x02")
    for at in (20, 24):  # both sizes of the first member
        content[place + at : place + at + 4] = (3000).to_bytes(4, "little")
    (tmp_path / FILE).write_bytes(content)
    assert peak_of_refusal(tmp_path, "its members are larger than the file") < 2**20


def test_pipe__is_refused_without_waiting(codes, tmp_path):
    os.mkfifo(tmp_path / FILE)
    assert peak_of_refusal(tmp_path, "not a regular file") < 2**20
    with at_most(seconds=10), pytest.raises(hd.CheckpointError, match="not a regular file"):
        hd.select(codes, None, 1, checkpoint=tmp_path)


def test_device__is_refused_without_waiting(tmp_path):
    try:
        os.mknod(tmp_path / FILE, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root can make a device")
    with at_most(seconds=10), pytest.raises(hd.CheckpointError, match="cannot be read"):
        read_checkpoint(tmp_path)


def test_directory_in_place_of_the_file__is_refused(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(hd.CheckpointError, match="not a regular file"):
        read_checkpoint(tmp_path)


def test_symbolic_link_in_place_of_the_file__is_refused_and_not_changed(codes, contents, tmp_path):
    (tmp_path / "else").write_bytes(contents["joint"])
    (tmp_path / "run").mkdir()
    for target in ("else", "nowhere"):
        link = tmp_path / "run" / FILE
        link.symlink_to(tmp_path / target)
        with pytest.raises(hd.CheckpointError, match="it is a symbolic link"):
            read_checkpoint(tmp_path / "run")
        with pytest.raises(hd.CheckpointError, match="it is a symbolic link"):
            hd.select(codes, None, 6, checkpoint=tmp_path / "run")
        assert link.is_symlink()
        link.unlink()
    assert (tmp_path / "else").read_bytes() == contents["joint"]
