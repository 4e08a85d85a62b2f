"""Helpers for tests of checkpoints: data, interruptions, damaged and forged files."""

import hashlib
import io
import json
import math
import signal
import zipfile
from contextlib import contextmanager
from dataclasses import fields, is_dataclass

import numpy as np

from hofs_dask.io.files import seal


def table(n_samples=1500, n_features=9, seed=0):
    """Return data with synergistic pairs, a nominal column, missing values and noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_samples)
    x = rng.normal(size=(n_samples, n_features))
    x[:, 5] += x[:, 3]
    x[:, 3] += y
    x[:, 7] = rng.random(n_samples) < 0.4 + 0.2 * (y == 1)
    x[:, 2] = (x[:, 7] > 0) ^ (y == 1) ^ (rng.random(n_samples) < 0.2)
    x[:, 4] = np.where(rng.random(n_samples) < 0.5, y, rng.integers(0, 4, n_samples))
    x[rng.random(x.shape) < 0.02] = np.nan
    return x, y


class CutError(Exception):
    """Interrupts a run."""


def names_in(directory):
    return sorted(entry.name for entry in directory.iterdir())


def cut_at(kind, rank):
    def callback(event):
        if isinstance(event, kind) and event.rank == rank:
            raise CutError

    return callback


def assert_same(first, second):
    """Assert that values, types and memory order are identical."""
    assert type(first) is type(second)
    if is_dataclass(first):
        for field in fields(first):
            assert_same(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes()
        order = [
            np.argsort([-stride for stride in a.strides], kind="stable") for a in (first, second)
        ]
        assert (order[0] == order[1]).all()
    else:
        assert repr(first) == repr(second)


@contextmanager
def at_most(seconds):
    """Fail if the block takes longer."""

    def fail(*_):
        raise AssertionError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Damaged and forged files


def opened(content):
    """Return the text and the arrays of a checkpoint."""
    with np.load(io.BytesIO(content)) as members:
        arrays = dict(members)
    return json.loads(arrays.pop("json").tobytes()), arrays


def forged(text, arrays, manifest=None):
    """Return a checkpoint of any text and arrays with valid digests, except those in `manifest`."""
    text = {name: value for name, value in text.items() if name != "digest"}
    entries = {
        name: {
            "dtype": array.dtype.str,
            "shape": array.shape,
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        for name, array in arrays.items()
    }
    sealed = seal({**text, "arrays": {**entries, **(manifest or {})}})
    stream = io.BytesIO()
    np.savez(stream, **arrays, json=np.frombuffer(sealed, np.uint8))
    return stream.getvalue()


def with_members(content, change, compression=zipfile.ZIP_STORED):
    """Return the archive after `change` has modified its members, a dict by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return stream.getvalue()


def damage(content, rng):
    """Return a kind of damage, and the content with this damage."""
    kind = rng.choice(["flip", "cut", "zeros", "swap", "lose", "add", "double", "header", "text"])
    place = int(rng.integers(len(content)))
    changed = bytearray(content)
    if kind == "flip":
        changed[place] ^= 1 << int(rng.integers(8))
    elif kind == "cut":
        del changed[place:]
    elif kind == "zeros":
        changed[place : place + 64] = bytes(len(changed[place : place + 64]))
    elif kind == "double":
        changed[place:place] = changed[place : place + int(rng.integers(1, 200))]
    else:
        changed = with_members(content, lambda members: _damage_members(members, kind, rng))
    return kind, bytes(changed)


def _damage_members(members, kind, rng):
    one, other = rng.choice(sorted(members), 2, replace=False)
    if kind == "swap":
        members[one], members[other] = members[other], members[one]
    elif kind == "lose":
        del members[one]
    elif kind == "add":
        members[str(rng.choice(["99.npy", "../x.npy", "json", "0", "a/"]))] = members[one]
    elif kind == "header":  # a numpy header with another type or shape
        shape = tuple(rng.choice([0, 1, 7, 2**40, 2**62], int(rng.integers(3))).tolist())
        dtype = str(rng.choice(["|O", "<f8", "|u1", "<U9999999", "|V1000000"]))
        stream = io.BytesIO()
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        members[one] = stream.getvalue() + members[one].partition(b"\n")[2]
    else:  # a changed text without a valid digest
        text = members["json.npy"]
        numbers = [i for i in range(150, len(text)) if 48 <= text[i] < 57]
        place = numbers[rng.integers(len(numbers))]
        members["json.npy"] = text[:place] + bytes([text[place] + 1]) + text[place + 1 :]


#: Values to substitute anywhere in a text.
ODD = [
    *(None, True, False, -1, 0, 1, 2, 7, 10**6, 2**31, 2**63, 10**400, -(2**63)),
    *(0.5, -1e308, 1e308, math.nan, math.inf, -math.inf),
    *("", "x", "0", "pair", "JointState", "<f8", "|O", "\ud800", "../../x"),
    *([], {}, [0], [0, 0], [2**40], [-1], [[[]]], {"array": "0"}, {"record": "Pick", "fields": {}}),
    {"array": "0", "dtype": "<i8", "axes": [], "shape": [2**20, 2**20]},
    {"array": "1", "dtype": "<U99999999", "axes": [0]},
]


def forge(content, rng):
    """Return a kind of forgery, and the content with this forgery and valid digests."""
    text, arrays = opened(content)
    manifest = {}
    kind = rng.choice(["node", "node", "lose", "repeat", "rename", "array", "manifest"])
    holders = [*_holders(text["tree"]), text, text["run"]]
    holder = holders[rng.integers(len(holders))]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[rng.integers(len(keys))]
    name = str(rng.choice(sorted(arrays)))
    if kind == "node":
        holder[key] = ODD[rng.integers(len(ODD))]
    elif kind == "lose":
        del holder[key]
    elif kind == "repeat":
        holder[key] = [holder[key]] * int(rng.integers(2, 5))
    elif kind == "rename":
        nodes = [node for node in holders if isinstance(node, dict) and "array" in node]
        nodes[rng.integers(len(nodes))]["array"] = name
    elif kind == "array":
        arrays[name] = _odd_array(arrays[name], rng)
    else:
        odd = {"dtype": "<f8", "shape": [2**40], "sha256": "0" * 64}
        odd[str(rng.choice(list(odd)))] = ODD[rng.integers(len(ODD))]
        manifest[name] = odd
    return kind, forged(text, arrays, manifest)


def _holders(tree):
    """Yield all nonempty lists and dicts of a tree."""
    if isinstance(tree, list | dict) and tree:
        yield tree
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _holders(item)


@np.errstate(invalid="ignore")
def _odd_array(array, rng):
    number = [-1, 0, 1, 2, 3, 100, 255, 2**31, 2**63 - 1, 1e308, math.nan, -math.inf, -1e308, 0.1]
    number = number[rng.integers(len(number))]
    match rng.integers(6):
        case 0:
            changed = array.astype(type(number))
            if array.size:
                changed.flat[rng.integers(array.size)] = number
            return changed
        case 1:
            return np.full(array.shape, number)
        case 2:
            return array[:-1] if array.ndim else array.reshape(1)
        case 3:
            return np.concatenate([array, array]) if array.ndim else array.reshape(1, 1)
        case 4:
            return array.T
        case _:
            return array.astype(rng.choice(["f8", "i8", "u1", "f4", "U3", "?", "c16"]))
