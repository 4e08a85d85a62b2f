"""Atomic writes, reads with a size limit, sealed documents and file locks."""

import contextlib
import errno
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.io.files import (
    LockedError,
    SealError,
    check_apart,
    locked,
    read_file,
    seal,
    unseal,
    write_file,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(document=st.dictionaries(st.text().filter(lambda name: name != "digest"), JSON, max_size=4))
def test_seal__round_trips_and_detects_changed_bytes(document):
    content = seal(document)
    assert unseal(content) == document
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with contextlib.suppress(SealError):
            assert unseal(bytes(damaged)) == document  # another spelling, such as 1E5 for 1e5


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "absent"])
def test_read_file__accepts_only_regular_files_of_the_expected_size(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as stream:
            os.truncate(stream.fileno(), 2**40)
    with pytest.raises(OSError) as caught:
        read_file(path, 100)
    expected = {"large": errno.EFBIG, "absent": errno.ENOENT}
    assert caught.value.errno == expected.get(kind, errno.EINVAL)
    assert str(path) in str(caught.value)


def test_write_file__replaces_a_link_and_keeps_its_target(tmp_path):
    (tmp_path / "thesis").write_text("draft")
    (tmp_path / "file").symlink_to(tmp_path / "thesis")
    write_file(tmp_path / "file", [b"new"], sync=True)
    assert (tmp_path / "thesis").read_text() == "draft"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()


def test_write_file__failure_names_the_file_and_leaves_no_partial_file(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match=f"'{tmp_path / 'file'}'"):
        write_file(tmp_path / "file", [b"new"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_locked__refuses_another_process_and_is_released_when_it_ends(tmp_path):
    script = (
        "import sys, time; from hofs_dask.io.files import locked\n"
        "with locked(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        words = f"^process {holder.pid} on "
        with pytest.raises(LockedError, match=words), locked(tmp_path / "lock"):
            pass
        holder.kill()
        holder.wait()
        with locked(tmp_path / "lock"):
            pass


def test_locked__a_link_is_refused(tmp_path):
    (tmp_path / "thesis").write_text("draft")
    for number, link in enumerate((os.symlink, os.link)):
        link(tmp_path / "thesis", tmp_path / f"lock{number}")
        with pytest.raises(OSError), locked(tmp_path / f"lock{number}"):
            pass
    assert (tmp_path / "thesis").read_text() == "draft"


@pytest.mark.parametrize(
    ("path", "source", "where"),
    [
        ("/data/x", "/data/x", "is"),
        ("/data/x/y", "/data/x", "is inside"),
        ("/data", "/data/x", "contains"),
        ("s3://bucket/a", "s3://bucket/a/b", "contains"),
        ("s3://bucket/a/", "s3://bucket/a", "is"),
        ("/data/x", "file:///data/x", "is"),
    ],
)
def test_check_apart__error_names_both_paths(path, source, where):
    with pytest.raises(ValueError, match=f"store is '{path}', which {where} the data at"):
        check_apart(path, ["/elsewhere", source], "store")


def test_check_apart__resolves_links_and_compares_whole_names(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(ValueError, match="is the data at"):
        check_apart(str(tmp_path / "link"), [str(tmp_path / "x")], "store")
    check_apart("/data/xy", ["/data/x", "s3://data/xy"], "store")
