"""Graphs of Dask arrays: their fingerprints, and the Zarr arrays that they read.

A graph has a fingerprint if it consists of functions of known libraries, data in memory and files
whose changes can be detected. A function of the user may read anything, so a graph that contains
one has no fingerprint.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import operator
import os
import sys
import types
from typing import Any

import dask.array.core as da
import numpy as np
import pandas as pd
import zarr
from dask._task_spec import Alias, DataNode, NestedContainer, Task, TaskRef
from dask.base import tokenize
from dask.blockwise import Blockwise, BlockwiseDep
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import SerializableLock, methodcaller

from hofs_dask.io.guard import guarded, listing_of
from hofs_dask.io.listings import UNKNOWN, Origin
from hofs_dask.io.storage import file_stamp, innermost, metadata_text, place_of

# A graph with a fingerprint may contain functions of these libraries that read no files.
_LIBRARIES = ("numpy", "dask", "xarray", "operator", "_operator", "toolz", "cytoolz", "tlz")
_NOT = ("numpy.random", "dask.array.random", "dask.bytes", "dask.dataframe", "xarray.backends")
_READERS = {"load", "fromfile", "memmap", "genfromtxt", "loadtxt", "fromregex", "open_memmap"}
# Types whose repr contains the whole value.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, slice, range})
_NODES = (TaskRef, Alias, DataNode, Task)
_TYPES = (bool, int, float, complex, str, bytes, tuple, list, dict, set, slice)


def is_mapped(array: np.ndarray) -> bool:
    """Return whether an array is a file that is mapped to memory.

    Examples
    --------
    >>> is_mapped(np.zeros(3))
    False
    """
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return isinstance(base, np.memmap) and base.filename is not None


class Trail:
    """Collects the fingerprint and the origins of data while its graph is traversed.

    Examples
    --------
    >>> trail = Trail()
    >>> trail.visit(np.arange(3))
    >>> trail.fingerprint == trail.fingerprint, trail.origins
    (True, ())
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._known = True
        self._functions: dict[int, tuple[Any, str | None]] = {}
        self._origins: dict[tuple[str, str, int], Origin] = {}

    @property
    def fingerprint(self) -> str | None:
        """The digest of what was visited, or None if changes of some of it cannot be detected."""
        return self._digest.hexdigest() if self._known else None

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The distinct files and Zarr arrays that the data is read from."""
        return tuple(self._origins.values())

    def visit(self, node: Any) -> None:
        """Add an array, a graph or a node of a graph to the fingerprint and the origins."""
        kind: type = type(node)
        if kind in _PLAIN or (kind in (tuple, list) and all(type(e) in _PLAIN for e in node)):
            self._add(repr(node))  # a key or a slice; a graph may have a million of these
        elif isinstance(node, _NODES):
            self._task(node)
        elif isinstance(node, str | int | float | bytes | np.generic | np.dtype):
            self._add(kind.__name__, repr(node))
        elif isinstance(node, tuple | list | set | frozenset | dict):
            self._container(node)
        elif isinstance(node, da.Array):
            self._graph(node)
        elif isinstance(node, np.ndarray):
            self._memory(node)
        elif isinstance(node, zarr.Array):
            self.zarr_array(node, place_of(node))
        elif isinstance(node, pd.Index | pd.api.extensions.ExtensionArray):
            self._add("pandas", tokenize(node))
        elif isinstance(node, functools.partial):
            self._all("partial", node.func, node.args, node.keywords)
        elif isinstance(node, methodcaller):
            self._add("method", node.method)
        elif isinstance(node, Blockwise):
            self._all("blockwise", *(getattr(node, name) for name in _BLOCKWISE))
        elif isinstance(node, BlockwiseDep) and type(node).__module__.startswith("dask."):
            self._all(type(node).__name__, vars(node))
        elif isinstance(node, SerializableLock) or node is Ellipsis:
            self._add(type(node).__name__)
        elif callable(node):
            self._function(node)
        elif type(node).__module__.startswith("xarray."):
            self._wrapper(node)
        else:
            self._unknown()

    def zarr_array(self, array: Any, place: str) -> None:
        """Add a Zarr array that is read from this path or URL."""
        listing = listing_of(array)
        self._origin(Origin(place, array, listing))
        if listing.stamp is None:
            self._known = False
        else:
            self._add("zarr", metadata_text(array), listing.stamp)

    def file(self, path: str) -> None:
        """Add a local file."""
        path = os.path.abspath(path)  # noqa: PTH100 - does not resolve links
        try:
            stamp = file_stamp(path)
        except OSError:
            self._unknown()
        else:
            self._add("file", stamp)
            self._origin(Origin(path, stamp=stamp))

    def _add(self, *texts: str) -> None:
        parts = [f"{len(text)}:{text}" for text in texts]
        self._digest.update("".join(parts).encode("utf-8", "surrogatepass"))

    def _all(self, kind: str, *nodes: Any) -> None:
        self._add(kind)
        for node in nodes:
            self.visit(node)

    def _origin(self, origin: Origin) -> None:
        array = origin.array
        path = "" if array is None else str(array.path)
        # arrays without a path or URL are distinguished by their stores
        store = 0 if origin.place or array is None else id(innermost(array.store))
        self._origins.setdefault((origin.place, path, store), origin)

    def _unknown(self) -> None:
        self._known = False
        self._origin(UNKNOWN)

    def _container(self, node: Any) -> None:
        self._add(type(node).__name__, str(len(node)))
        if isinstance(node, dict):
            for key, value in node.items():
                self.visit(key)
                self.visit(value)
            return
        for each in sorted(node, key=repr) if isinstance(node, set | frozenset) else node:
            self.visit(each)

    def _graph(self, array: da.Array) -> None:
        self._all("dask", array.name, array.shape, array.dtype, array.chunks)
        graph = array.dask
        layers = graph.layers if isinstance(graph, HighLevelGraph) else {"": graph}
        for name in sorted(layers):
            self._add(name)
            layer = layers[name]
            if isinstance(layer, Blockwise):
                self.visit(layer)
            else:
                self._container(dict(layer))

    def _memory(self, array: np.ndarray) -> None:
        if not is_mapped(array):
            self._add("numpy", tokenize(array))
            return
        base: Any = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        # the file at this path may have been replaced, and a write through another memory map
        # need not change its timestamps
        self._unknown()
        self.file(str(base.filename))

    def _task(self, node: Any) -> None:
        if isinstance(node, TaskRef):
            self._all("ref", node.key)
        elif isinstance(node, Alias):
            self._all("alias", node.key, node.target)
        elif isinstance(node, DataNode):
            self._all("data", node.key, node.value)
        elif isinstance(node, NestedContainer):
            self._all(type(node).__name__, node.args)
        else:
            self._all("task", node.key, node.func, node.args, dict(node.kwargs))

    def _function(self, node: Any) -> None:
        found = self._functions.get(id(node))
        if found is None or found[0] is not node:
            name = f"{_module(node)}:{_name(node)}" if _is_known(node) else None
            found = self._functions[id(node)] = (node, name)
        if found[1] is None:
            self._unknown()
        else:
            self._add("function", found[1])

    def _wrapper(self, node: Any) -> None:
        """Add a lazy array object of xarray."""
        kind = type(node)
        self._add(kind.__module__, kind.__name__)
        if kind.__module__ == "xarray.backends.zarr":
            array = node._array
            # the origin is the group, because the user opened the group
            self.zarr_array(array, place_of(array).removesuffix(f"/{array.basename}"))
        elif kind.__module__.startswith("xarray.backends.locks"):
            return
        elif kind.__module__.startswith("xarray.backends."):
            self._backend(node)
        elif kind.__module__.startswith(("xarray.core.indexing", "xarray.coding.")):
            for name in _attributes(node):
                self._all(name, getattr(node, name))
        else:
            self._unknown()

    def _backend(self, node: Any) -> None:
        """Add an array in a file that xarray opened."""
        manager = getattr(getattr(node, "datastore", None), "_manager", None)
        paths = getattr(manager, "_args", ())
        if not paths or not isinstance(paths[0], str) or not hasattr(node, "variable_name"):
            self._unknown()
            return
        # the file at this path may have been replaced since it was opened
        self._unknown()
        self.file(paths[0])


_BLOCKWISE = (
    "output",
    "output_indices",
    "output_blocks",
    "task",
    "numblocks",
    "io_deps",
    "indices",
    "concatenate",
    "new_axes",
)


def guard_arrays(array: da.Array) -> da.Array:
    """Return a dask array whose Zarr arrays are guarded, or the same object if it reads none.

    A guarded array raises an error if one of its chunks was removed, see `io.guard`.

    Examples
    --------
    >>> lazy = da.from_array(zarr.zeros((4, 2)), chunks=2)
    >>> guard_arrays(lazy) is lazy
    False
    """
    graph = array.dask
    if not isinstance(graph, HighLevelGraph):
        return array
    changed: dict[str, Any] = {}
    for name, layer in graph.layers.items():
        if isinstance(layer, MaterializedLayer) and len(layer) == 1:
            ((key, node),) = layer.items()
            found = guard_node(node)
            if found is not node:
                changed[name] = MaterializedLayer({key: found})
        elif isinstance(layer, Blockwise):
            indices = tuple((guard_node(node), index) for node, index in layer.indices)
            if any(a[0] is not b[0] for a, b in zip(indices, layer.indices, strict=True)):
                changed[name] = copy.copy(layer)
                changed[name].indices = indices
    if not changed:
        return array
    # the name is kept, because it is part of the fingerprint
    return da.Array(
        HighLevelGraph({**graph.layers, **changed}, graph.dependencies),
        array.name,
        chunks=array.chunks,
        meta=array._meta,
    )


def classic(array: Any) -> Any:
    """Convert an expression-based Dask array to one with a task graph; return others unchanged.

    If Dask's setting ``array.query-planning`` is on, ``dask.array.Array`` is a class that has no
    ``reshape`` and no ``to_delayed``. This package uses ``dask.array.core.Array`` in any case.

    Examples
    --------
    >>> classic(3)
    3
    """
    if not type(array).__module__.startswith("dask.array._array_expr"):
        return array
    planned = array.optimize()
    graph = dict(planned.__dask_graph__())
    return da.Array(graph, planned.name, chunks=planned.chunks, meta=planned._meta)


def with_fixed_tasks(array: da.Array) -> da.Array:
    """Return an array whose P2P rechunks and shuffles have been replaced by their tasks.

    The tasks of such a rechunk depend on which chunks of the array are computed, but the keys of
    the tasks do not. If two parts of the array are computed, in one graph or one after the other,
    the values are therefore wrong: https://github.com/dask/dask/issues/9888. An array with fixed
    tasks can be computed in parts.

    Examples
    --------
    >>> array = da.from_array(np.zeros(3))
    >>> with_fixed_tasks(array) is array
    True
    """
    graph = array.__dask_graph__()
    layers = graph.layers.values() if isinstance(graph, HighLevelGraph) else ()
    if not any(type(layer).__module__.startswith("distributed.shuffle") for layer in layers):
        return array
    return da.Array(dict(graph), array.name, chunks=array.chunks, meta=array._meta)


def guard_node(node: Any) -> Any:
    """Return a graph node whose Zarr array is guarded, or the same object if it has no Zarr array.

    Examples
    --------
    >>> guard_node(zarr.zeros(3)).store.is_guard
    True
    """
    if isinstance(node, zarr.Array):
        return guarded(node)
    if isinstance(node, DataNode):
        inner = guard_node(node.value)
        return node if inner is node.value else DataNode(node.key, inner)
    if type(node).__module__.startswith("xarray."):
        for name in ("array", "_array"):
            inner = getattr(node, name, None)
            found = inner if inner is None else guard_node(inner)
            if found is not inner:
                node = copy.copy(node)
                setattr(node, name, found)
                return node
    return node


def _attributes(node: Any) -> list[str]:
    slots = [name for kind in type(node).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {name for name in [*slots, *getattr(node, "__dict__", {})] if hasattr(node, name)}
    return sorted(names - {"_copied", "__weakref__"})


def _module(node: Any) -> str:
    return str(getattr(node, "__module__", None) or type(node).__module__)


def _name(node: Any) -> str:
    return str(getattr(node, "__qualname__", None) or getattr(node, "__name__", ""))


def _is_known(node: Any) -> bool:
    """Return whether a callable is a function of a known library that reads no files.

    The module of the library must contain this very object under its name, so that a function that
    only claims to be from the library is not accepted.
    """
    if isinstance(node, np.ufunc):
        return getattr(np, node.__name__, None) is node
    if any(node is each for each in _TYPES):
        return True
    function = types.FunctionType | types.BuiltinFunctionType | type
    dispatched = type(node).__name__ == "_ArrayFunctionDispatcher"
    module, name = _module(node), _name(node)
    if not (isinstance(node, function) or dispatched or type(node).__module__ == "dask.utils"):
        return False
    if module.split(".")[0] not in _LIBRARIES or module.startswith(_NOT) or name in _READERS:
        return False
    found: Any = sys.modules.get(module)
    try:
        return operator.attrgetter(name)(found) is node
    except AttributeError:
        return False
