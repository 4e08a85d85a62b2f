"""What several commands share: options, their checks, and features as they are typed."""

from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hofs_dask.cli.running import DEBUG

Command = typing.TypeVar("Command", bound=Callable[..., Any])


def examples(*commands: str) -> str:
    """The end of a help text: commands to copy.

    Examples
    --------
    >>> examples("info codes.zarr").splitlines()[1:]
    ['Example:', '  hofs-dask info codes.zarr']
    """
    # The first character keeps the lines as they are.
    return "\n".join(["\b", "Example:", *(f"  hofs-dask {command}" for command in commands)])


def _debug(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[DEBUG] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help="Show the traceback of an error.",
)

n_features_option = click.option(
    "--n-features",
    type=click.IntRange(min=1),
    required=True,
    metavar="T",
    help="How many features to choose.",
)

target_option = click.option(
    "--target",
    metavar="NAME",
    help="The label; may be left out for a code store that has one alone.",
)


explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Print what would be done and why (chunks, scans, bytes, memory), and do nothing.",
)


def _bins(_ctx: click.Context, _param: click.Parameter, text: str) -> int | str | None:
    if text == "none":
        return None
    if text in ("auto", "width"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a number nor auto, width or none")
    return int(text)


def reading_options(command: Command) -> Command:
    """The command with options that say how data becomes codes."""
    for option in (
        click.option(
            "--bins",
            callback=_bins,
            metavar="NUMBER|auto|width|none",
            default="auto",
            show_default=True,
            help="Codes of a feature with more values; none for integers that are codes already.",
        ),
        click.option(
            "--target-kind",
            type=click.Choice(["auto", "class", "ordinal", "continuous"]),
            default="auto",
            show_default=True,
            help="What the label is.",
        ),
        click.option(
            "--nominal",
            multiple=True,
            metavar="NAME",
            help="A feature whose numbers are categories. May be given again.",
        ),
        click.option("--feature-dim", metavar="DIM", help="The dimension that holds the features."),
    ):
        command = option(command)
    return command


def progress_option(what: str) -> Callable[[Command], Command]:
    """The option that asks for a line a step."""
    return click.option(
        "--progress/--no-progress",
        default=None,
        help=f"A line a {what} on the standard error. By default where that is a terminal.",
    )


def search_options(command: Command) -> Command:
    """The command with options that say what may be chosen, and where the search is kept."""
    for option in (
        click.option(
            "--checkpoint",
            metavar="DIR",
            help="Keep every round here: the same command goes on where a run was cut short.",
        ),
        click.option(
            "--min-gain",
            type=float,
            metavar="G",
            help="Stop when the next feature gains less, in nats.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="NAME",
            help="A feature never chosen. Again for more.",
        ),
        click.option(
            "--include",
            multiple=True,
            metavar="NAME",
            help="A feature that comes first. Again for more.",
        ),
    ):
        command = option(command)
    return command


def cluster_options(command: Command) -> Command:
    """The command with options that say where the work is done."""
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on the cluster of this Dask scheduler, such as tcp://host:8786.",
    )
    workers = click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Work on N processes of this machine. By default one process with threads.",
    )
    return scheduler(workers(command))


def exists(path: str) -> bool:
    """Whether there is something at a path; of an address that is not known before it is read.

    Examples
    --------
    >>> exists("no/such/path"), exists("s3://bucket/data.zarr")
    (False, True)
    """
    return "://" in path or Path(path).exists()


def check_store(store: str, target: str | None) -> None:
    """Raise where a label has to be named and is not, or codes are to be read in another way."""
    from hofs_dask.store.codes import is_codes

    if not exists(store):
        return
    if not is_codes(store):
        if target is None:
            raise click.UsageError(
                f"{store} is not a code store, so that its label has to be named: add --target NAME"
            )
        return
    context = click.get_current_context()
    for name in ("feature_dim", "nominal", "target_kind", "bins"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{store} is a code store, encoded with options of its own: leave "
                f"--{name.replace('_', '-')} out, or encode the data again with it"
            )


def features_of(
    texts: Iterable[str], store: str, target: str | None, feature_dim: str | None
) -> list[Hashable]:
    """The features of a store that were typed."""
    from hofs_dask.io.source import open_source
    from hofs_dask.store.codes import is_codes, open_codes

    typed = list(texts)
    if not typed:
        return []
    if is_codes(store):
        return parse_features(typed, open_codes(store, target).names)
    return parse_features(typed, open_source(store, target, feature_dim=feature_dim).names)


def parse_features(texts: Iterable[str], names: Iterable[Hashable]) -> list[Hashable]:
    """The features that were typed: by name, which may be a number, or by position.

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
