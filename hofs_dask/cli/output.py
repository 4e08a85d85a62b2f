"""Output files: checks before a long run, and functions that write results, tables and figures."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hofs_dask.cli.options import options_for
from hofs_dask.io.files import write_file

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.planning.explain import Plan
    from hofs_dask.results.comparison import Comparison
    from hofs_dask.results.interactions import Interactions
    from hofs_dask.results.selection import Selection
    from hofs_dask.store.codes import CodeStore

Kind = Literal["selection", "comparison", "matrix", "interactions"]

#: Kinds of `information_matrix`, repeated here because its module is slow to import.
MATRIX_KINDS = ("spectral", "conditional", "joint", "redundancy")

#: The path that means: print the result as JSON instead of text.
STDOUT = "-"
TABLES = (".json", ".csv")
#: Suffixes of figures, and how such a file starts.
PICTURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
#: Allowed suffixes of output files, by kind of result.
OUTPUTS: dict[Kind, tuple[str, ...]] = {
    "selection": (".zarr", ".nc", *TABLES),
    "comparison": (".zarr", ".nc", *TABLES),
    "matrix": (".zarr", ".nc", ".csv"),
    "interactions": (".zarr", ".nc", ".csv"),
}
#: Columns of the table of ranks of one method.
COLUMNS = (
    "rank",
    "feature",
    "index",
    "subset",
    "score",
    "gain",
    "information",
    "redundancy",
    "margin",
    "p_value",
    "runner_up",
    "epoch",
    "forced",
    "together",
    "relevance",
)
#: Additional columns for a comparison with resamples.
RESAMPLED = ("stability", "frequency")
#: Start of the first line of a table, by kind of result.
HEADS: dict[Kind, tuple[str, ...]] = {
    "selection": (",".join(COLUMNS[:4]),),
    "comparison": (",".join(["method", *COLUMNS[:4]]),),
    "matrix": tuple(f"{kind}_information," for kind in MATRIX_KINDS),
    "interactions": ("rank,feature_1,feature_2,",),
}
#: Names of the kinds of results in messages.
_A: dict[Kind, str] = {
    "selection": "a selection",
    "comparison": "a comparison",
    "matrix": "a matrix",
    "interactions": "a table of interactions",
}
#: Attributes of results that are JSON.
ENCODED = frozenset({"options", "classes", "feature_dims"})
#: The attribute `format` of a saved matrix, repeated here because its module is slow to import.
MATRIX_FORMAT = "hofs_dask matrix"

Check = Callable[[click.Context, click.Parameter, str | None], str | None]


def output_check(kind: Kind) -> Check:
    """Return a click callback that checks if a result of this kind can be written to a path."""

    def check(_ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
        if path in (None, STDOUT):
            return path
        _check_ending(path, OUTPUTS[kind])
        if path.endswith(".nc") and not (find_spec("h5netcdf") and find_spec("h5py")):
            raise click.BadParameter(
                "a .nc file needs h5netcdf and h5py: pip install 'hofs-dask[netcdf]', or give a "
                "path that ends with .zarr"
            )
        if "://" not in path:
            _check_folder(path)
        elif not path.endswith(".zarr"):
            what = "a .nc file" if path.endswith(".nc") else "a table"
            raise click.BadParameter(
                f"{path!r} is a URL; {what} can only be written to a local path: give one, or a "
                "URL that ends with .zarr"
            )
        _check_place(path, kind)
        return path

    return check


def check_picture(_ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Return the path; raise an error if a figure cannot be drawn or written to the path."""
    if path is None:
        return None
    _check_ending(path, tuple(PICTURES))
    if find_spec("matplotlib") is None:
        raise click.BadParameter("a figure needs matplotlib: pip install 'hofs-dask[plot]'")
    _check_folder(path)
    if Path(path).is_dir():
        raise click.BadParameter(f"{path!r} is a folder; give the path of a file")
    if Path(path).exists() and not _is_figure(Path(path)):
        raise click.BadParameter(
            f"{path!r} exists and is not a figure of this program: give another path, or remove it "
            "first"
        )
    return path


def write_selection(result: Selection, output: str) -> None:
    """Write a complete selection, or a table of its ranks, depending on the suffix."""
    if not output.endswith(TABLES):
        result.save(output, storage_options=options_for(output))
        return
    tree = selection_tree(result)
    _write_table(output, COLUMNS, tree["ranks"], tree)


def selection_tree(result: Selection) -> dict[str, Any]:
    """Return a selection as values that JSON can store."""
    head = _head(result.to_dataset().attrs)
    return {**head, "subsets": result.subsets, "ranks": list(_ranks(result))}


def write_comparison(result: Comparison, output: str) -> None:
    """Write a complete comparison, or a table of all ranks, depending on the suffix."""
    if not output.endswith(TABLES):
        result.save(output, storage_options=options_for(output))
        return
    tree = comparison_tree(result)
    rows = [
        {"method": label, **rank} for label, own in tree["methods"].items() for rank in own["ranks"]
    ]
    resampled = "stability" in result.to_dataset()
    _write_table(output, ("method", *COLUMNS, *RESAMPLED * resampled), rows, tree)


def comparison_tree(result: Comparison) -> dict[str, Any]:
    """Return a comparison as values that JSON can store."""
    data = result.to_dataset()
    resampled, names = "stability" in data, data["feature"].values.tolist()
    labels, by_method = list(result), {}
    for row, label in enumerate(labels):
        chosen = result[label]
        ranks = list(_ranks(chosen))
        if resampled:
            stability, frequency = (data[name].values[row] for name in RESAMPLED)
            for rank in ranks:
                rank["stability"] = stability[rank["rank"] - 1].item()
                rank["frequency"] = frequency[names.index(rank["feature"])].item()
        by_method[label] = {"subsets": chosen.subsets, "ranks": ranks}
    head = _head(data.attrs)
    options = head.pop("options")
    for label, found in options.items():
        by_method[label]["options"] = found
    last = data["overlap"].values[-1:].tolist()
    overlap = [dict(zip(labels, line, strict=True)) for line in (last[0] if last else [])]
    return {**head, "methods": by_method, "overlap": dict(zip(labels, overlap, strict=False))}


def write_matrix(matrix: xr.DataArray, output: str) -> None:
    """Write an information matrix to a Zarr store, a netCDF file or a CSV table."""
    if output.endswith(".csv"):
        names = matrix["feature"].values.tolist()
        lines = zip(names, matrix.values.tolist(), strict=True)
        _write_csv(output, [matrix.name, *names], ([name, *line] for name, line in lines))
        return
    from hofs_dask.results.saving.readwrite import write

    dataset = matrix.to_dataset().assign_attrs({**matrix.attrs, "format": MATRIX_FORMAT})
    write(dataset, output, options_for(output))


def matrix_tree(matrix: xr.DataArray) -> dict[str, Any]:
    """Return an information matrix as values that JSON can store.

    Examples
    --------
    >>> import xarray as xr
    >>> names = {"feature": ["a", "b"], "other": ["a", "b"]}
    >>> matrix_tree(xr.DataArray([[0.7, 0.2], [0.2, 0.6]], names))["features"]
    ['a', 'b']
    """
    names, values = matrix["feature"].values.tolist(), matrix.values.tolist()
    attrs = _decoded(matrix.attrs)
    return {"format": MATRIX_FORMAT, **attrs, "features": names, "values": values}


def interactions_tree(result: Interactions) -> dict[str, Any]:
    """Return interactions as values that JSON can store."""
    table, attrs = result.to_dataframe(), result.to_dataset().attrs
    rows = [dict(zip(table.columns, line, strict=True)) for line in table.values.tolist()]
    return {
        **_decoded(attrs),
        "tuples": [{name: _number(value) for name, value in row.items()} for row in rows],
    }


def store_tree(codes: CodeStore) -> dict[str, Any]:
    """Return what a code store contains as values that JSON can store."""
    labels, groups, weights = codes.labels, codes.groups, codes.weights
    return {
        "format": "hofs_dask codes",
        "path": str(codes.path),
        "n_samples": codes.n_samples,
        "n_features": codes.n_features,
        "features": list(codes.names),
        "n_codes": codes.n_codes.tolist(),
        "nominal": codes.nominal.tolist(),
        "chunks": list(codes.chunks),
        "target": labels.name,
        "target_kind": labels.kind,
        "classes": list(labels.classes),
        "counts": labels.counts.tolist(),
        "n_dropped": labels.n_dropped,
        "notes": list(labels.notes),
        "groups": None if groups is None else groups.name,
        "weights": None if weights is None else weights.name,
    }


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print the plan of a run as text or as JSON."""
    if as_json:
        print_json({"format": "hofs_dask plan", **asdict(plan)})
    else:
        click.echo(str(plan))


def print_json(tree: Mapping[str, Any]) -> None:
    """Print values as JSON; numbers and texts of numpy are converted."""
    click.echo(json.dumps(tree, indent=1, default=_plain_value))


def _plain_value(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON instead of text."
)


def write_interactions(result: Interactions, output: str) -> None:
    """Write interactions to a Zarr store, a netCDF file or a CSV table."""
    if not output.endswith(".csv"):
        result.save(output, storage_options=options_for(output))
        return
    table = result.to_dataframe()
    _write_csv(output, list(table.columns), table.values.tolist())


def draw(result: Selection | Comparison | Interactions, path: str | Path) -> None:
    """Write the figure of a result to a file."""
    import matplotlib as mpl

    mpl.use("agg")  # never open a window
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    figure = result.plot().figure
    assert isinstance(figure, Figure)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _check_ending(path: str, endings: tuple[str, ...]) -> None:
    if not path.endswith(endings):
        raise click.BadParameter(f"{path!r} should end with one of {' '.join(endings)}")


def _check_folder(path: str) -> None:
    if not Path(path).absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {str(Path(path).parent)!r} does not exist: create it")


def _check_place(output: str, kind: Kind) -> None:
    """Raise an error if a path exists and is not an earlier result of this kind."""
    from hofs_dask.results.saving.readwrite import check_place

    path = Path(output)
    if not output.endswith(TABLES):
        try:
            check_place(output, _format_of(kind), options_for(output))
        except (ImportError, OSError, ValueError) as error:
            raise click.BadParameter(str(error)) from error
    elif path.exists() and not (path.is_file() and _is_table(path, kind)):
        raise click.BadParameter(
            f"{output!r} exists and is not {_A[kind]}: give another path, or remove it first"
        )


def _is_figure(path: Path) -> bool:
    """Return whether a file is a figure that matplotlib wrote, in the format of its suffix."""
    if not path.is_file():
        return False
    (start,) = (each for ending, each in PICTURES.items() if path.name.endswith(ending))
    with path.open("rb") as file:
        return file.read(len(start)) == start and b"Matplotlib" in file.read()


def _is_table(path: Path, kind: Kind) -> bool:
    """Return whether a file starts like a table of this kind."""
    with path.open(errors="replace") as file:
        start = file.read(200)
    if path.suffix == ".json":
        return f'"format": "{_format_of(kind)}"' in start
    return start.startswith(HEADS[kind])


def _format_of(kind: Kind) -> str:
    from hofs_dask.results.comparison import Comparison
    from hofs_dask.results.interactions import Interactions
    from hofs_dask.results.selection import Selection

    return {
        "selection": Selection.FORMAT,
        "comparison": Comparison.FORMAT,
        "matrix": MATRIX_FORMAT,
        "interactions": Interactions.FORMAT,
    }[kind]


def _head(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the attributes for JSON, with the format first, where `_is_table` finds it."""
    head = {"format": attrs["format"], **_decoded(attrs)}
    head.pop("selections", None)
    return head


def _decoded(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    r"""Return attributes with the values of those that are JSON, and with a list of notes.

    Examples
    --------
    >>> _decoded({"target": "y", "classes": '[["0", 5], ["1", 3]]', "notes": "one\ntwo"})
    {'target': 'y', 'classes': [['0', 5], ['1', 3]], 'notes': ['one', 'two']}
    """
    found = dict(attrs)
    for name in ENCODED & found.keys():
        found[name] = json.loads(found[name])
    if "notes" in found:
        found["notes"] = found["notes"].split("\n")
    return found


def _ranks(result: Selection) -> Iterator[dict[str, Any]]:
    """Yield a dict for each rank, with the values of all columns by name."""
    data = result.to_dataset()
    columns = {name: data[name].values.tolist() for name in COLUMNS if name != "feature"}
    names = data["feature"].values.tolist()
    columns["feature"] = result.features
    columns["relevance"] = [columns["relevance"][index] for index in columns["index"]]
    columns["index"] = result.indices.tolist()
    columns["runner_up"] = [None if at < 0 else names[at] for at in columns["runner_up"]]
    for values in zip(*(columns[name] for name in COLUMNS), strict=True):
        yield {name: _number(value) for name, value in zip(COLUMNS, values, strict=True)}


def _number(value: object) -> object:
    """Return the value, or None for NaN, which JSON does not have."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_table(
    output: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], tree: Mapping[str, Any]
) -> None:
    """Write the rows as CSV or the tree as JSON, depending on the suffix."""
    if output.endswith(".csv"):
        _write_csv(output, columns, ([row[name] for name in columns] for row in rows))
    else:
        _write_text(output, json.dumps(tree, indent=1) + "\n")


def _write_csv(output: str, header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    _write_text(output, stream.getvalue())


def _write_text(output: str, text: str) -> None:
    """Write a table atomically; symbolic links are followed."""
    write_file(Path(output).resolve(), [text.encode()], sync=True, private=True)
