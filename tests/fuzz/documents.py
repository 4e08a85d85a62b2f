"""JSON documents in artefacts, and edits that damage them."""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hofs_dask.io.files import seal
from tests.fuzz.site import Site

SUFFIXES = (".json", ".zarray", ".zattrs", ".zgroup")
#: The JSON member of a checkpoint, and the key of the digest of a sealed document.
MEMBER, DIGEST = "json.npy", "digest"

_NESTED: Any = []
for _ in range(200):
    _NESTED = [_NESTED]

#: Replacements of a part of a document.
ODD: list[Any] = [
    *(2**31, 2**63, 10**15, 10**30, -1, 0, 1, 2, 255, 0.5, -(2**63), 1e308),
    *(math.nan, math.inf, None, True, "", "x", "0", "\ud800", "NaN"),
    *("object", "|O", "float16", "<U1000000000", "<f8", "|V9999999999", "uint8", "string"),
    *([], {}, [0], [-1], [10**15], [0, 0], [2**31, 2**31], {"name": "x"}, {"id": "pickle"}),
    *(_NESTED, "x" * 100_000, list(range(3000))),
]


@dataclass(frozen=True)
class Document:
    """A JSON document in a file, or in the JSON member of a checkpoint."""

    path: Path
    content: Any

    @property
    def is_sealed(self) -> bool:
        return isinstance(self.content, dict) and DIGEST in self.content

    def write(self, *, sealed: bool = False) -> None:
        """Write the document, with a recomputed digest if it is sealed."""
        if sealed:
            body = {name: item for name, item in self.content.items() if name != DIGEST}
            octets = seal(body)
        else:
            octets = json.dumps(self.content).encode()
        if self.path.suffix != ".npz":
            self.path.write_bytes(octets)
            return
        members = read_members(self.path)
        members[MEMBER] = as_npy(np.frombuffer(octets, np.uint8))
        write_members(self.path, members)


def documents(site: Site) -> list[Document]:
    """Return the readable JSON documents of an artefact."""
    found = []
    for path in site.files():
        try:
            if path.name.endswith(SUFFIXES):
                found.append(Document(path, json.loads(path.read_bytes())))
            elif path.suffix == ".npz":
                text = from_npy(read_members(path)[MEMBER]).tobytes()
                found.append(Document(path, json.loads(text)))
        except (ValueError, KeyError, OSError, zipfile.BadZipFile):
            continue  # already damaged in this case
    return found


def edit(content: Any, site: Site) -> str:
    """Change one part of a document in place; return a description."""
    holder, steps = content, []
    while True:
        if not isinstance(holder, dict | list) or not holder:
            raise LookupError("there is nothing to edit")
        key = site.pick(holder if isinstance(holder, dict) else range(len(holder)))
        steps.append(str(key))
        if not isinstance(holder[key], dict | list) or not holder[key] or site.rng.random() < 0.3:
            break
        holder = holder[key]
    where = "/".join(steps)
    change = site.pick(["replace", "replace", "replace", "near", "near", "remove", "add"])
    if change == "replace":
        holder[key] = site.pick([*ODD, "../../x", f"{site.outside}/x", str(site.outside)])
        return f"{where} = {_short(holder[key])}"
    if change == "near":
        holder[key] = _near(holder[key], site)
        return f"{where} = {_short(holder[key])}"
    if change == "remove":
        del holder[key]
        return f"{where} removed"
    if isinstance(holder, dict):
        holder[site.pick(["x", "../x", f"{key}x"])] = holder[key]
    else:
        holder.insert(0, holder[key])
    return f"{where} added again"


def _near(value: Any, site: Site) -> Any:
    """Return a similar value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return site.pick([value + 1, value - 1, value * 2, -value, value // 2])
    if isinstance(value, str):
        middle = len(value) // 2
        return site.pick([value[:-1], value + value, value[::-1], value[middle:] + value[:middle]])
    if isinstance(value, list):
        return site.pick([value[:-1], value + value, value[::-1], [value]])
    return dict(list(value.items())[:-1])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


# The members of a checkpoint


def read_members(path: Path) -> dict[str, bytes]:
    """Return the members of a zip file by name."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write_members(
    path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write a zip file."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def as_npy(array: np.ndarray) -> bytes:
    """Return the content of a .npy file with an array."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def from_npy(content: bytes) -> np.ndarray:
    """Return the array of a .npy file."""
    found: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return found
