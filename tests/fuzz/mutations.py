"""Mutations: damage without recomputed checksums.

A mutation is a function of a site that changes its artefact and returns a description. If it does
not apply, it raises a LookupError before it changes anything.
"""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.fuzz.children import done_in_child
from tests.fuzz.documents import as_npy, documents, edit, read_members, write_members
from tests.fuzz.site import Site

Mutation = Callable[[Site], str]

#: All mutations by name.
MUTATIONS: dict[str, Mutation] = {}

#: Size in bytes of an unpacked zip bomb and of a sparse file.
BOMB, SPARSE = 2**28, 2**40


def mutation(function: Mutation) -> Mutation:
    """Register a function as a mutation."""
    MUTATIONS[function.__name__.replace("_", " ")] = function
    return function


# Bytes of files


@mutation
def flip_bits(site: Site) -> str:
    path = site.pick(path for path in site.files() if path.stat().st_size)
    content = bytearray(path.read_bytes())
    places = site.rng.integers(len(content) * 8, size=site.pick([1, 1, 1, 8, 100]))
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return f"{len(places)} bits of {site.name(path)} flipped, the first in byte {places[0] // 8}"


@mutation
def fill(site: Site) -> str:
    path = site.pick(path for path in site.files() if path.stat().st_size)
    octet = site.pick([0, 255])
    path.write_bytes(bytes([octet]) * path.stat().st_size)
    return f"{site.name(path)} filled with {octet}"


@mutation
def truncate(site: Site) -> str:
    path = site.pick(path for path in site.files() if path.stat().st_size)
    size = path.stat().st_size
    left = site.pick([0, 1, size // 2, size - 4, size - 1])
    os.truncate(path, max(left, 0))
    return f"{site.name(path)} cut from {size} to {left} bytes"


@mutation
def extend(site: Site) -> str:
    path = site.pick(site.files())
    more = site.rng.bytes(site.pick([1, 4, 8, 4096]))
    path.write_bytes(path.read_bytes() + more)
    return f"{site.name(path)} extended by {len(more)} bytes"


@mutation
def extend_sparse(site: Site) -> str:
    path = site.pick(site.files())
    os.truncate(path, SPARSE)
    return f"{site.name(path)} extended to {SPARSE} bytes"


# Files and folders


@mutation
def delete_file(site: Site) -> str:
    path = site.pick(site.files())
    path.unlink()
    return f"{site.name(path)} deleted"


@mutation
def delete_folder(site: Site) -> str:
    path = site.pick(_folders(site))
    shutil.rmtree(path)
    return f"{site.name(path)} deleted"


@mutation
def swap_files(site: Site) -> str:
    one, other = _two(site)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{site.name(one)} and {site.name(other)} swapped"


@mutation
def copy_over(site: Site) -> str:
    one, other = _two(site)
    other.write_bytes(one.read_bytes())
    return f"{site.name(one)} copied over {site.name(other)}"


@mutation
def link_to_moved_file(site: Site) -> str:
    path = site.pick(site.files())
    target = site.outside / f"moved-{path.name}"
    shutil.move(path, target)
    path.symlink_to(target)
    return f"{site.name(path)} moved away and linked to"


@mutation
def link_elsewhere(site: Site) -> str:
    path = site.pick(site.entries())
    target = site.pick([site.outside / "thesis.txt", site.outside, path, Path("/dev/zero")])
    _clear(path)
    path.symlink_to(target)
    return f"{site.name(path)} is a link to {target}"


@mutation
def hard_link(site: Site) -> str:
    path = site.pick(site.files())
    path.unlink()
    path.hardlink_to(site.outside / "thesis.txt")
    return f"{site.name(path)} is thesis.txt by another name"


@mutation
def pipe(site: Site) -> str:
    path = site.pick(site.entries())
    _clear(path)
    os.mkfifo(path)
    return f"{site.name(path)} is a pipe"


@mutation
def folder_for_file(site: Site) -> str:
    path = site.pick(site.files())
    path.unlink()
    path.mkdir()
    return f"{site.name(path)} is a folder"


@mutation
def file_for_folder(site: Site) -> str:
    path = site.pick(_folders(site))
    shutil.rmtree(path)
    path.write_bytes(b"draft")
    return f"{site.name(path)} is a file"


@mutation
def plant(site: Site) -> str:
    """Create a link or a pipe at the path of a file that will be written."""
    names = ["lock", "checkpoint.npz.part", "checkpoint.npz.partial", "columns", "columns.json"]
    path = site.pick(_folders(site)) / site.pick(names)
    if os.path.lexists(path):
        raise LookupError(f"{path} exists")
    kind = site.pick(["link", "folder link", "pipe"])
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(site.outside / ("thesis.txt" if kind == "link" else ""))
    return f"{site.name(path)} planted as a {kind}"


# JSON


@mutation
def edit_json(site: Site) -> str:
    document = site.pick(documents(site))
    what = edit(document.content, site)
    document.write()
    return f"{site.name(document.path)}: {what}"


@mutation
def other_json(site: Site) -> str:
    path = site.pick(
        document.path for document in documents(site) if document.path.suffix != ".npz"
    )
    content = site.pick([b"", b"{}", b"[]", b"null", b"{" * 99_999, b"\xff" * 9, b'{"a": 1'])
    path.write_bytes(content)
    return f"{site.name(path)} holds {content[:9]!r}"


# Arrays that run code or need unknown codecs


@mutation
def array_of_pickles(site: Site) -> str:
    folder, shape = site.pick(_arrays(site))
    settings = {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}], "fill_value": None}
    _write_v2(folder, shape, settings, site.payload())
    return f"{site.name(folder)} is an array of pickles"


@mutation
def array_of_unknown_codec(site: Site) -> str:
    folder, shape = site.pick(_arrays(site))
    settings = {
        "dtype": "<f8",
        "compressor": {"id": site.pick(["no-such-codec", "pickle", "json2"])},
    }
    _write_v2(folder, shape, settings, site.payload())
    return f"{site.name(folder)} needs an unknown codec"


@mutation
def array_of_pickles_v3(site: Site) -> str:
    folder, _ = site.pick(found for found in _arrays(site) if (found[0] / "zarr.json").exists())
    metadata = json.loads((folder / "zarr.json").read_bytes())
    codec = site.pick(["numcodecs.pickle", "pickle", "no-such-codec"])
    metadata["codecs"] = [{"name": codec, "configuration": {}}, *metadata["codecs"]]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    for chunk in (path for path in folder.rglob("*") if path.is_file() and path.name.isdigit()):
        chunk.write_bytes(site.payload())
    return f"{site.name(folder)} has the codec {codec!r}"


# Checkpoints


@mutation
def zip_bomb(site: Site) -> str:
    path, members = _archive(site)
    name = site.pick([*members, "foreign.npy"])
    bomb = _bomb()
    with zipfile.ZipFile(path, "w") as archive:
        for each in members.keys() | {name}:
            if each == name:
                archive.writestr(each, bomb, zipfile.ZIP_DEFLATED)
            else:
                archive.writestr(each, members[each])
    return f"{name} of {site.name(path)} becomes {BOMB} bytes"


@mutation
def foreign_member(site: Site) -> str:
    path, members = _archive(site)
    name = site.pick(["foreign.npy", "../../x.npy", f"{site.outside}/x.npy", "x", "json.npy.npy"])
    write_members(path, members | {name: as_npy(np.arange(4))})
    return f"{site.name(path)} has a member {name!r}"


@mutation
def repeated_member(site: Site) -> str:
    path, members = _archive(site)
    one, other = site.pick(members), site.pick(members)
    write_members(path, members | {one: members[other]})
    return f"{other} copied over {one} in {site.name(path)}"


@mutation
def npy_header(site: Site) -> str:
    path, members = _archive(site)
    name = site.pick(members)
    shape = site.pick([(10**12,), (2**31, 2**31), (-1,), (2**63,), (0,), ()])
    stream = io.BytesIO()
    header = {"descr": site.pick(["<f8", "|u1", "<U99999999", "|O"]), "fortran_order": False}
    np.lib.format.write_array_header_1_0(stream, header | {"shape": shape})  # type: ignore[arg-type]
    body = site.payload() if header["descr"] == "|O" else members[name][-64:]
    write_members(path, members | {name: stream.getvalue() + body})
    return f"{name} of {site.name(path)} has the header {header} {shape}"


# netCDF


@mutation
def edit_hdf5(site: Site) -> str:
    path = site.pick(path for path in site.files() if path.suffix == ".nc")
    return done_in_child(lambda: _edit_hdf5(site, path), site)


def _edit_hdf5(site: Site, path: Path) -> str:
    try:
        with h5py.File(path, "r+") as file:
            name = site.pick(file)
            kind = site.pick(["value", "attribute", "delete", "huge", "external"])
            if kind == "value":
                found = file[name]
                if not found.size or found.dtype.kind not in "if":
                    raise LookupError("no numbers")
                found[(0,) * found.ndim] = 7
            elif kind == "attribute":
                file.attrs[site.pick(file.attrs)] = site.pick([7, "x", "hofs_dask comparison"])
            else:
                del file[name]
            if kind == "huge":
                file.create_dataset(name, shape=(2**40,), chunks=(2**20,), dtype="f8")
            elif kind == "external":
                file[name] = h5py.ExternalLink(str(site.outside / "thesis.txt"), "/x")
    except (OSError, RuntimeError, KeyError) as error:
        raise LookupError("damaged before") from error
    return f"{name} of {site.name(path)}: {kind}"


def _folders(site: Site) -> list[Path]:
    return [path for path in site.entries() if path.is_dir() and not path.is_symlink()]


def _two(site: Site) -> tuple[Path, Path]:
    """Return two files, if possible of the same size."""
    one = site.pick(site.files())
    others = [path for path in site.files() if path != one]
    alike = [path for path in others if path.stat().st_size == one.stat().st_size]
    return one, site.pick(alike if alike and site.rng.random() < 0.7 else others)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _arrays(site: Site) -> list[tuple[Path, list[int]]]:
    """Return the folders of Zarr arrays with their shapes."""
    found = []
    for document in documents(site):
        content = document.content
        if (
            document.path.name in ("zarr.json", ".zarray")
            and isinstance(content, dict)
            and isinstance(content.get("shape"), list)
        ):
            found.append((document.path.parent, content["shape"]))
    return found


def _write_v2(folder: Path, shape: list[int], settings: dict[str, Any], chunk: bytes) -> None:
    """Replace a folder by a Zarr v2 array of one chunk."""
    shutil.rmtree(folder)
    folder.mkdir()
    metadata = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": shape,
        "order": "C",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
    }
    (folder / ".zarray").write_text(json.dumps(metadata | settings))
    (folder / ".zattrs").write_text("{}")
    (folder / ".".join("0" * len(shape))).write_bytes(chunk)


def _archive(site: Site) -> tuple[Path, dict[str, bytes]]:
    path = site.pick(path for path in site.files() if path.suffix == ".npz")
    try:
        return path, read_members(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise LookupError("damaged before") from error


@functools.cache
def _bomb() -> bytes:
    return as_npy(np.zeros(BOMB, np.uint8))
