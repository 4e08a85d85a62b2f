"""Options that several commands share, their checks, and parsing of feature names."""

from __future__ import annotations

import contextlib
import json
import typing
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hofs_dask.cli.running import DEBUG
from hofs_dask.cli.sections import DataOption, RunOption

#: Key of the options of storage in the context.
STORAGE = "hofs_dask.storage"

Command = typing.TypeVar("Command", bound=Callable[..., Any])


def examples(*commands: str) -> str:
    """Return example commands for the end of a help text.

    Examples
    --------
    >>> examples("info codes.zarr").splitlines()[1:]
    ['Example:', '  hofs-dask info codes.zarr']
    """
    heading = "Example:" if len(commands) == 1 else "Examples:"
    # click keeps the line breaks of a paragraph that starts with \b.
    return "\n".join(["\b", heading, *(f"  hofs-dask {command}" for command in commands)])


def _debug(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[DEBUG] = True


debug_option = click.option(
    "--debug",
    cls=RunOption,
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help="Print the full traceback if an error occurs.",
)


def _storage(ctx: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> None:
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter("an option has no KEY=VALUE, such as anon=true")  # no secrets
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    ctx.meta[STORAGE] = options


storage_option = click.option(
    "--storage-option",
    cls=RunOption,
    multiple=True,
    is_eager=True,  # the check of --output uses it
    expose_value=False,
    callback=_storage,
    metavar="KEY=VALUE",
    help="An option of fsspec for all URLs of the command, such as anon=true. VALUE is JSON or "
    "text. Can be repeated. Other users of this machine can see command lines: pass secrets in "
    "environment variables or configuration files of the storage library instead.",
)


def options_for(*paths: object) -> dict[str, Any] | None:
    """Return the options of ``--storage-option`` if one of the paths is a URL, else None.

    Examples
    --------
    >>> options_for("s3://bucket/data.zarr") is None  # no command is running
    True
    """
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta.get(STORAGE, {})
    return given if given and any("://" in str(path) for path in paths) else None


target_option = click.option(
    "--target",
    metavar="NAME",
    help="Name of the target variable. Optional if STORE is a code store with one target.",
)


explain_option = click.option(
    "--explain",
    cls=RunOption,
    is_flag=True,
    help="Print the plan of the run (chunks, scans, bytes, memory) and the reasons for it, "
    "and exit without running it.",
)


def _bins(_ctx: click.Context, _param: click.Parameter, text: str) -> int | str | None:
    if text == "none":
        return None
    if text in ("auto", "width"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a number, auto, width or none")
    return int(text)


def _dims(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[str] | str | None:
    return text.split(",") if text is not None and "," in text else text


def _lags(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> dict[str, list[int]] | None:
    if text is None:
        return None
    dim, _, steps = text.partition("=")
    if not dim or not all(step.isdecimal() for step in steps.split(",")):
        raise click.BadParameter(f"{text!r} is not a dim and its lags, such as time=0,1,2")
    return {dim: [int(step) for step in steps.split(",")]}


def _label(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> str | int | float | None:
    for kind in (int, float):
        with contextlib.suppress(TypeError, ValueError):
            return kind(text)  # type: ignore[arg-type]
    return text


@dataclass(frozen=True)
class ReadingOptions:
    """Values of the command-line options for reading data, with the names that `select` uses."""

    feature_dim: list[str] | str | None
    feature_coord: str | None
    lags: dict[str, list[int]] | None
    nominal: tuple[str, ...]
    target_kind: str
    bins: int | str | None
    where: str | None
    ignore_label: str | int | float | None
    groups: str | None
    weights: str | None
    on_bad: str

    def arguments(self, store: str, target: str | None) -> dict[str, Any]:
        """Return the options as arguments of the functions that read data."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {"nominal": self.features(self.nominal, store, target) or None}

    def features(self, texts: Iterable[str], store: str, target: str | None) -> list[Hashable]:
        """Return the features of a store for names given on the command line."""
        from hofs_dask.io.places import as_place
        from hofs_dask.io.reading import Reading
        from hofs_dask.io.source import open_source
        from hofs_dask.store.codes import is_codes, open_codes

        typed = list(texts)
        if not typed:
            return []
        place = as_place(store, options_for(store))
        if is_codes(place):
            return parse_features(typed, open_codes(place, target).names)
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        # skip, because the user may want to exclude exactly the features that cannot be used
        source = open_source(place, target, Reading(**given | {"nominal": None, "on_bad": "skip"}))
        return parse_features(typed, source.columns)


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for reading data, which it receives as one `ReadingOptions`."""

    @wraps(command)
    def gathered(**given: Any) -> None:
        values = {field.name: given.pop(field.name) for field in fields(ReadingOptions)}
        command(**given, reading=ReadingOptions(**values))

    decorated: Callable[..., None] = gathered
    for option in _READING:
        decorated = option(decorated)
    return decorated


#: The options for reading data, in the reverse order of the help text.
_READING = (
    storage_option,
    click.option(
        "--on-bad",
        cls=DataOption,
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="What to do with features that cannot be used, such as dates or a text column "
        "whose values are all different. raise: end with an error that names all of them. skip: "
        "leave them out, with a note in the result that says why.",
    ),
    click.option(
        "--bins",
        cls=DataOption,
        callback=_bins,
        metavar="NUMBER|auto|width|none",
        default="auto",
        show_default=True,
        help="How to bin numeric features. Each bin becomes an integer code. If "
        "a feature has at most as many distinct values as bins, each value gets its own "
        "code. auto: 5 to 32 bins of about equal counts; the more samples, the more bins. NUMBER "
        "(2 to 254): this many bins of about equal counts. width: as many bins as auto, of equal "
        "width. none: no binning; the data must be integers from 0 to 253, which are used directly "
        "as codes.",
    ),
    click.option(
        "--target-kind",
        cls=DataOption,
        type=click.Choice(["auto", "class", "ordinal", "continuous"]),
        default="auto",
        show_default=True,
        help="How to interpret the target. class: classes without an order. ordinal: classes "
        "in the order of their values. continuous: numbers, which are cut into 8 classes of "
        "about equal size. auto: class for booleans, strings and categoricals, for integers with "
        "at most 254 distinct values, and for floats with at most 20 distinct values that are all "
        "whole numbers; otherwise continuous.",
    ),
    click.option(
        "--nominal",
        cls=DataOption,
        multiple=True,
        metavar="NAME",
        help="Treat the numbers of the feature NAME as categories. Can be repeated. Strings, "
        "categoricals and booleans are always treated as categories.",
    ),
    click.option(
        "--groups",
        cls=DataOption,
        metavar="NAME",
        help="Name of the variable with the group of each sample, such as a subject. All "
        "samples of a group are in the same fold of cross-fitting, and with "
        '"hofs-dask compare --resamples", resamples consist of whole groups. For blocks of '
        "coordinates, add their numbers to the data as a variable.",
    ),
    click.option(
        "--weights",
        cls=DataOption,
        metavar="NAME",
        help="Name of the variable with the weight of each sample, such as an area. Only ratios of "
        "weights matter. Samples of weight 0 are not used.",
    ),
    click.option(
        "--ignore-label",
        cls=DataOption,
        callback=_label,
        metavar="LABEL",
        help="Class whose samples are not used, such as 0 for pixels without a label.",
    ),
    click.option(
        "--where",
        cls=DataOption,
        metavar="NAME",
        help="Name of the boolean variable that is true for the samples to use. All other samples "
        "are ignored, as if the data did not contain them.",
    ),
    click.option(
        "--lags",
        cls=DataOption,
        callback=_lags,
        metavar="DIM=N,N...",
        help="Lags along DIM, in steps back, such as time=0,1,2. Each feature with this dimension "
        "is replaced by one feature per lag. Samples for which a lagged value does not exist are "
        "not used.",
    ),
    click.option(
        "--feature-coord",
        cls=DataOption,
        metavar="NAME",
        help="Coordinate that names the features, such as wavelength.",
    ),
    click.option(
        "--feature-dim",
        cls=DataOption,
        callback=_dims,
        metavar="DIM[,DIM...]",
        help="Dimension along which the features lie, such as band; all other dimensions are "
        "samples. Default: the dimension called feature. If there is no such dimension and the "
        "data has several variables besides the target, each variable is a feature. If the data "
        "has only one variable, and this variable has two dimensions, the features lie along the "
        "second; if it has more than two, --feature-dim or --feature-coord is required.",
    ),
)


def progress_option(step: str) -> Callable[[Command], Command]:
    """Return the option that switches progress lines on or off."""
    return click.option(
        "--progress/--no-progress",
        cls=RunOption,
        default=None,
        help=f"Print one line per {step} to standard error. On a terminal, also show a progress "
        "bar for the current step. Default: only if standard error is a terminal.",
    )


def cluster_options(command: Command) -> Command:
    """Add the options that choose a cluster to a command."""
    scheduler = click.option(
        "--scheduler",
        cls=RunOption,
        metavar="ADDRESS",
        help="Run on the cluster of the Dask scheduler at ADDRESS, such as tcp://host:8786.",
    )
    workers = click.option(
        "--workers",
        cls=RunOption,
        type=click.IntRange(min=1),
        metavar="N",
        help="Run on N local worker processes. Default: run on threads of a single process.",
    )
    described = click.option(
        "--cluster",
        "cluster_file",
        cls=RunOption,
        metavar="KIND:FILE",
        help="Start the cluster that FILE describes, and stop it after the run. KIND is ssh or "
        "slurm; deploy/ssh and deploy/slurm have examples.",
    )
    return scheduler(described(workers(command)))


def exists(path: str) -> bool:
    """Return whether a path exists; a URL is assumed to exist.

    Examples
    --------
    >>> exists("no/such/path"), exists("s3://bucket/data.zarr")
    (False, True)
    """
    return "://" in path or Path(path).exists()


def check_store(store: str, target: str | None) -> None:
    """Raise an error for data without a target, or for a code store with encoding options."""
    from hofs_dask.io.places import as_place
    from hofs_dask.store.codes import is_codes

    if not exists(store):
        return
    if not is_codes(as_place(store, options_for(store))):
        if target is None:
            raise click.UsageError(
                f"{store} is not a code store and needs a target: add --target NAME"
            )
        return
    context = click.get_current_context()
    for name in (field.name for field in fields(ReadingOptions)):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{store} is a code store, which is already encoded: remove "
                f"--{name.replace('_', '-')}, or encode the data again with it"
            )


def parse_features(texts: Iterable[str], names: Iterable[Hashable]) -> list[Hashable]:
    """Return the feature that each text of the command line means, as its name or its position.

    A text that equals a name means this name, even if it is a number such as "412.5". Other whole
    numbers are positions.

    Examples
    --------
    >>> parse_features(["412.5", "0"], [400.0, 412.5])
    [412.5, 0]
    """
    by_text = {str(name): name for name in names}
    return [
        by_text[text] if text in by_text else int(text) if text.isdecimal() else text
        for text in texts
    ]
