"""``hofs-dask info``: describe a code store, a result or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hofs_dask.cli.checkpoints import parts_of, rounds_in
from hofs_dask.cli.matrix import matrix_text
from hofs_dask.cli.options import debug_option, examples, exists, options_for, storage_option
from hofs_dask.cli.output import (
    MATRIX_FORMAT,
    comparison_tree,
    interactions_tree,
    json_option,
    matrix_tree,
    print_json,
    selection_tree,
    store_tree,
)

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.io.places import Place, StorageOptions
    from hofs_dask.results.comparison import Comparison
    from hofs_dask.results.interactions import Interactions
    from hofs_dask.results.selection import Selection

    #: Checkpoints of a comparison, by method and number of the resample (None: all samples).
    Parts = Mapping[str, Mapping[int | None, Place]]

T = TypeVar("T")
#: Minimum width of the list of chosen columns, in characters.
MIN_ROOM = 30


@click.command(epilog=examples("info codes.zarr"))
@click.argument("path")
@json_option
@storage_option
@debug_option
def info(path: str, as_json: bool) -> None:
    """Describe a code store, a saved result or a checkpoint.

    PATH is a code store, a saved result (a selection, a comparison, a matrix or interactions), or
    the directory of a checkpoint.
    """
    if as_json:
        print_json(tree_at(path))
    else:
        click.echo(describe(path))


def describe(path: str) -> str:
    """Return a short text that describes what is at a path.

    Examples
    --------
    >>> describe("no/such/path")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no such path: 'no/such/path'
    """
    return _at(
        path,
        checkpoint=lambda place: _describe_checkpoint(path, place),
        parts=lambda parts: _describe_parts(path, parts),
        codes=_describe_codes,
        selection=repr,
        comparison=repr,
        interactions=repr,
        matrix=matrix_text,
    )


def tree_at(path: str) -> dict[str, Any]:
    """Return what is at a path as values that JSON can store.

    Examples
    --------
    >>> tree_at("no/such/path")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no such path: 'no/such/path'
    """
    return _at(
        path,
        checkpoint=_checkpoint_tree,
        parts=_parts_tree,
        codes=_codes_tree,
        selection=selection_tree,
        comparison=comparison_tree,
        interactions=interactions_tree,
        matrix=matrix_tree,
    )


def _at(
    path: str,
    *,
    checkpoint: Callable[[Place], T],
    parts: Callable[[Parts], T],
    codes: Callable[[Place], T],
    selection: Callable[[Selection], T],
    comparison: Callable[[Comparison], T],
    interactions: Callable[[Interactions], T],
    matrix: Callable[[xr.DataArray], T],
) -> T:
    """Return the value of the function for the kind of object at a path."""
    from hofs_dask.io.places import as_place
    from hofs_dask.results.comparison import Comparison, matrix_of
    from hofs_dask.results.interactions import Interactions
    from hofs_dask.results.selection import Selection
    from hofs_dask.search.checkpoint import has_checkpoint
    from hofs_dask.store.codes import is_codes

    if not exists(path):
        raise FileNotFoundError(f"no such path: {path!r}")
    options = options_for(path)
    place = as_place(path, options)
    if has_checkpoint(place):
        return checkpoint(place)
    if found := parts_of(path):
        return parts(found)
    if is_codes(place):
        return codes(place)
    return _read_result(
        path,
        {
            Selection.FORMAT: lambda dataset: selection(Selection(dataset)),
            Comparison.FORMAT: lambda dataset: comparison(Comparison(dataset)),
            Interactions.FORMAT: lambda dataset: interactions(Interactions(dataset)),
            MATRIX_FORMAT: lambda dataset: matrix(matrix_of(dataset)),
        },
        options,
    )


def _read_result(
    path: str, makers: Mapping[str, Callable[[xr.Dataset], T]], options: StorageOptions | None
) -> T:
    """Return what the maker of its format makes of a saved result."""
    from hofs_dask.results.saving.content import ForeignError
    from hofs_dask.results.saving.readwrite import read

    try:
        return read(path, makers, options)
    except ForeignError as error:
        raise ValueError(
            f"{path!r} is not a code store, a saved selection, comparison, matrix or interactions, "
            "or a checkpoint; encode data with: hofs-dask encode SOURCE STORE --target NAME"
        ) from error


def _checkpoint_tree(place: Place) -> dict[str, Any]:
    """Return the run and the picks of a checkpoint; features are given by column."""
    from hofs_dask.methods.interactions import TupleState
    from hofs_dask.search.checkpoint import read_checkpoint

    run, snapshot = read_checkpoint(place)
    picks = [
        {
            "rank": rank,
            "index": pick.index,
            "subset": pick.subset,
            "score": pick.score,
            "gain": pick.gain,
            "information": pick.information,
        }
        for rank, pick in enumerate(snapshot.picks, start=1)
    ]
    if isinstance(snapshot.state, TupleState):
        return {"format": "hofs_dask checkpoint", **run, "panels": snapshot.state.n_done}
    return {"format": "hofs_dask checkpoint", **run, "picks": picks}


def _parts_tree(parts: Parts) -> dict[str, Any]:
    """Return the run and the picks of each method of a comparison."""
    from hofs_dask.search.checkpoint import has_checkpoint

    return {
        label: _checkpoint_tree(found[None])
        for label, found in parts.items()
        if None in found and has_checkpoint(found[None])
    }


def _codes_tree(place: Place) -> dict[str, Any]:
    from hofs_dask.store.codes import open_codes

    return store_tree(open_codes(place))


def _describe_codes(place: Place) -> str:
    """Return the description of a code store with all its targets."""
    from hofs_dask.store.codes import get_manifest, open_codes

    keys = [target.key for target in get_manifest(place).targets]
    latest, *others = [repr(open_codes(place, key)) for key in reversed(keys)]
    return "\n".join([latest, *(text.splitlines()[-1] for text in others)])


def _describe_checkpoint(path: str, place: Place) -> str:
    from hofs_dask.methods.interactions import TupleState
    from hofs_dask.search.checkpoint import read_checkpoint

    run, snapshot = read_checkpoint(place)
    if isinstance(snapshot.state, TupleState):
        facts = _facts({"panels": snapshot.state.n_done, **run})
        return "\n".join([f"Checkpoint {path}", *facts])
    picks = snapshot.picks
    lines = [f"Checkpoint {path}", *_facts({"rounds": len(picks), **run})]
    lines += ["", "rank  column  subset    gain  information"]
    lines += [
        f"{rank:>4}  {pick.index:>6}  {pick.subset:>6}  {pick.gain:.4f}  {pick.information:>11.4f}"
        for rank, pick in enumerate(picks, start=1)
    ]
    return "\n".join(lines)


def _describe_parts(path: str, parts: Parts) -> str:
    """Return the number of rounds and the chosen columns of each method of a comparison."""
    from hofs_dask.results.text import WIDTH, aligned, fitted
    from hofs_dask.search.checkpoint import has_checkpoint, read_checkpoint

    runs: list[dict[str, object]] = []
    rows, chosen = [["method", "rounds", "resamples"]], [["columns by rank"]]
    for label, found in parts.items():
        columns: list[str] = []
        if None in found and has_checkpoint(found[None]):
            run, snapshot = read_checkpoint(found[None])
            runs.append(run)
            columns = [str(pick.index) for pick in snapshot.picks]
        resamples = [rounds_in(part) for number, part in found.items() if number is not None]
        rows.append([label, str(len(columns)), _rounds_of(resamples)])
        chosen.append(columns)
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    room = WIDTH - sum(2 + max(map(len, column)) for column in zip(*rows, strict=True))
    table = [
        [*row, fitted(columns, max(room, MIN_ROOM))]
        for row, columns in zip(rows, chosen, strict=True)
    ]
    sides = ["left", "right", *["left"] * (len(table[0]) - 2)]
    return "\n".join(
        [f"Checkpoint of a comparison {path}", *_facts(_shared(runs)), "", *aligned(table, sides)]
    )


def _shared(runs: list[dict[str, object]]) -> dict[str, object]:
    """Return the options and data that all runs share."""
    first, *others = runs or [{}]
    return {
        name: value
        for name, value in first.items()
        if all(name in run and run[name] == value for run in others)
    }


def _facts(facts: Mapping[str, object]) -> list[str]:
    """Return one line per name and value; empty values are omitted."""
    return [
        f"  {_printable(name):<19} {_printable(value)}"
        for name, value in facts.items()
        if value not in (None, [])
    ]


def _printable(value: object) -> str:
    r"""Return a value as text in which control characters of a terminal are escaped.

    Examples
    --------
    >>> _printable("a\x1b[2J")
    "'a\\x1b[2J'"
    """
    text = str(value)
    return text if text.isprintable() else ascii(text)


def _rounds_of(resamples: list[int]) -> str:
    """Return the number of resamples, and the number of rounds of each, as text."""
    if not resamples:
        return ""
    from hofs_dask.results.text import counted

    least, most = min(resamples), max(resamples)
    return f"{len(resamples)} with {f'{least} to ' * (least < most)}{counted(most, 'round')}"
