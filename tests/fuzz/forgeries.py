"""Forgeries: damage with recomputed checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import hofs_dask as hd
from hofs_dask.io.places import Place
from hofs_dask.store.chunks import write_chunk
from tests.fuzz.children import done_in_child
from tests.fuzz.documents import (
    Document,
    as_npy,
    documents,
    edit,
    from_npy,
    read_members,
    write_members,
)
from tests.fuzz.mutations import Mutation
from tests.fuzz.site import Site

#: Forgeries by subject and name.
FORGERIES: dict[str, dict[str, Mutation]] = {}

#: The bytes before the digest at the end of a netCDF result.
NETCDF_MARK, NETCDF_DIGITS = b"\nhofs_dask sha256 ", 64


def forgery(*subjects: str) -> Any:
    """Register a function as a forgery of some subjects."""

    def add(function: Mutation) -> Mutation:
        for subject in subjects:
            own = FORGERIES.setdefault(subject, {})
            own[function.__name__.replace("_", " ")] = function
        return function

    return add


@forgery("codes", "checkpoint")
def forge_json(site: Site) -> str:
    document = site.pick(each for each in documents(site) if each.is_sealed)
    what = "; ".join(edit(document.content, site) for _ in range(site.pick([1, 1, 2])))
    document.write(sealed=True)
    return f"{site.name(document.path)} forged: {what}"


@forgery("codes")
def forge_chunk(site: Site) -> str:
    """Replace the bytes of a chunk of codes, of labels or of a copied column."""
    manifest = _sealed(site, "manifest.json")
    folder = site.root / manifest.content["folder"]
    lists = {"codes": manifest.content["content"]}
    lists |= {f"labels/{each['key']}": each for each in manifest.content["targets"]}
    owners: dict[str, tuple[Document, Any, str]] = {
        name: (manifest, holder, "checksums") for name, holder in lists.items()
    }
    for copies in (each for each in documents(site) if each.path.name == "columns.json"):
        columns = copies.content["columns"]
        owners |= {f"columns/{column}": (copies, columns, column) for column in columns}
    name = site.pick(sorted(owners))
    document, holder, key = owners[name]
    number, file = site.pick(list(enumerate(_chunk_files(folder / name))))
    content = _other(np.fromfile(file, np.uint8)[:-4], site)
    checksum = write_chunk(Place(str(folder)), str(file.relative_to(folder)), content)
    digits = holder[key]
    holder[key] = f"{digits[: 8 * number]}{checksum:08x}{digits[8 * number + 8 :]}"
    document.write(sealed=True)
    return f"chunk {number} of {name} forged"


@forgery("codes")
def forge_table(site: Site) -> str:
    manifest = _sealed(site, "manifest.json")
    folder = site.root / manifest.content["folder"]
    name = site.pick(sorted(manifest.content["content"]["tables"]))
    (file,) = _chunk_files(folder / name)
    content = _other(np.fromfile(file, np.uint8)[:-4], site)
    write_chunk(Place(str(folder)), str(file.relative_to(folder)), content)
    table = manifest.content["content"]["tables"][name]
    table["sha256"] = hashlib.sha256(content.tobytes()).hexdigest()
    manifest.write(sealed=True)
    return f"table {name} forged"


@forgery("codes")
def forge_sizes(site: Site) -> str:
    """Change sizes in a manifest consistently, so that they do not match the stored data."""
    manifest = _sealed(site, "manifest.json")
    content, target = manifest.content["content"], manifest.content["targets"][0]
    kind = site.pick(["fewer classes", "more classes", "samples", "rows", "width", "bits"])
    by = site.pick([-64, -1, 1, 7, 60, 64])
    if kind == "fewer classes":
        gone = target["counts"].pop()
        target["counts"][0] += gone
        target["classes"].pop()
        target["values"].pop()
    elif kind == "more classes":
        target["counts"].append(0)
        target["classes"].append(site.pick([99, "x", None, 1e300]))
        target["values"].append(site.pick([0.0, 99.0, 1e300]))
    elif kind == "samples":
        content["n_samples"] += by
        target["counts"][0] += by
    elif kind == "rows":
        content["chunks"][0] += by
    elif kind == "width":
        content["chunks"][1] += site.pick([-1, 1])
    else:
        content["bits"] = site.pick([1, 2, 4, 7, 8])
    manifest.write(sealed=True)
    return f"{kind} forged, by {by}"


@forgery("checkpoint")
def forge_array(site: Site) -> str:
    document = site.pick(each for each in documents(site) if each.path.suffix == ".npz")
    members = read_members(document.path)
    listed = document.content.get("arrays")
    if not isinstance(listed, dict):
        raise LookupError("there is no list of arrays")
    name = site.pick(sorted(listed))
    array = _other_numbers(from_npy(members[f"{name}.npy"]), site)
    write_members(document.path, members | {f"{name}.npy": as_npy(array)})
    listed[name] = {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }
    document.write(sealed=True)
    return f"array {name} forged: {array.dtype} {array.shape}"


@forgery("result", "netcdf", "comparison")
def forge_result(site: Site) -> str:
    """Change a value of a result and save it with the package."""
    return done_in_child(lambda: _forge_result(site), site)


def _forge_result(site: Site) -> str:
    try:
        result = hd.load(site.root)
        dataset = result.to_dataset()
        name = site.pick(sorted(dataset.variables))
        values = dataset[name].values
        if values.dtype.kind in "OU":
            changed = values.copy()
            changed.flat[0] = site.pick(["", "x", "../../x", "\x00", "x" * 1000])
        else:
            changed = _other_numbers(values, site)
        made = dataset.assign({name: (dataset[name].dims, changed, dataset[name].attrs)})
        type(result)(made).save(site.root)
    except Exception as error:
        # the package cannot write this result
        raise LookupError("no such result can be saved") from error
    return f"{name} forged"


@forgery("netcdf")
def forge_hdf5(site: Site) -> str:
    """Flip bits of an HDF5 file and recompute the digest."""
    content = bytearray(site.root.read_bytes())
    mark = content.rfind(NETCDF_MARK)
    end = len(content) if mark < 0 else mark
    places = site.rng.integers(end * 8, size=site.pick([1, 1, 8]))
    for place in places:
        content[place // 8] ^= 1 << place % 8
    if mark >= 0:
        content[-NETCDF_DIGITS:] = hashlib.sha256(content[:mark]).hexdigest().encode()
    site.root.write_bytes(content)
    return f"{len(places)} bits flipped below the digest, the first in byte {places[0] // 8}"


def _sealed(site: Site, name: str) -> Document:
    found: Document = site.pick(
        each for each in documents(site) if each.path.name == name and each.is_sealed
    )
    return found


def _chunk_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "c").rglob("*") if path.is_file())


def _other(content: np.ndarray, site: Site) -> np.ndarray:
    """Return other bytes of the same length."""
    kind = site.pick(["random", "ones", "zeros", "few"])
    if kind == "random":
        return site.rng.integers(0, 256, content.size, np.uint8)
    if kind == "few":
        changed = content.copy()
        changed[site.rng.integers(content.size, size=3)] ^= 1
        return changed
    return np.full(content.size, 255 if kind == "ones" else 0, np.uint8)


def _other_numbers(array: np.ndarray, site: Site) -> np.ndarray:
    """Return an array with an unusual number, or with another shape or dtype."""
    kind = site.pick(["number", "number", "all", "shorter", "longer", "type"])
    if kind in ("number", "all"):
        odd = site.pick([0, 1, -1, 7, 255, 2**31, 2**62, *([np.nan, np.inf, 1e300])])
        with np.errstate(all="ignore"):
            other = np.full(array.shape, odd).astype(array.dtype)
        if kind == "number" and array.size:
            changed = array.copy()
            changed.flat[site.rng.integers(array.size)] = other.flat[0]
            return changed
        return other
    if kind == "shorter":
        return array[:-1] if array.ndim else array.reshape(1)
    if kind == "longer":
        return np.concatenate([array, array]) if array.ndim else array.reshape(1, 1)
    with np.errstate(all="ignore"):
        return array.astype(site.pick(["f8", "i8", "u1", "f4", "?"]))
