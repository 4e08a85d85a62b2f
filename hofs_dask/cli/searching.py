"""What the commands `select` and `compare` have in common: options, execution and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from hofs_dask.cli.checkpoints import how_to_resume
from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import (
    ReadingOptions,
    check_store,
    cluster_options,
    debug_option,
    explain_option,
    options_for,
    progress_option,
    reading_options,
    target_option,
)
from hofs_dask.cli.output import (
    STDOUT,
    check_picture,
    draw,
    json_option,
    output_check,
    print_json,
    print_plan,
)
from hofs_dask.cli.running import advise
from hofs_dask.events import Event, RoundEnded, RoundStarted

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method
    from hofs_dask.results.comparison import Comparison
    from hofs_dask.results.selection import Selection

    Found = TypeVar("Found", Selection, Comparison)


@dataclass(frozen=True)
class Search:
    """Values of the options that `select` and `compare` share, named after the options."""

    store: str
    n_features: int | str
    target: str | None
    reading: ReadingOptions
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    min_gain: str | None
    alpha: float | None
    checkpoint: str | None
    output: str | None
    as_json: bool
    plot: str | None
    progress: bool | None
    explain: bool
    scheduler: str | None
    workers: int | None
    cluster_file: str | None

    def request(self) -> dict[str, Any]:
        """Return the options as arguments of `estimate`, `select` and `compare`."""
        include, exclude = (
            self.reading.features(texts, self.store, self.target)
            for texts in (self.include, self.exclude)
        )
        return {
            "data": self.store,
            "target": self.target,
            "n_features": self.n_features,
            "include": include,
            "exclude": exclude,
        } | self.reading.arguments(self.store, self.target)


class NumberOrAuto(click.ParamType[int | str]):
    """The click type of an option that is a whole number above zero or the word auto."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Return the number or the word."""
        if value == "auto":
            return "auto"
        try:
            number = int(str(value))
        except ValueError:
            number = 0
        if number < 1:
            self.fail(f"{value!r} is neither a whole number from 1 on nor 'auto'", param, ctx)
        return number


def _min_gain(text: str | None) -> float | str | None:
    """Return the option ``--min-gain`` as a number of nats, or as text if it is a percentage."""
    if text is None or text.endswith("%"):
        return text
    try:
        return float(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r}; give nats such as 0.01, or a share such as 1%", param_hint="--min-gain"
        ) from error


def search_command(
    kind: Literal["selection", "comparison"], figure: str, step: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the shared options and passes them as one `Search`.

    Parameters
    ----------
    kind
        Kind of the result.
    figure
        Content of the figure of ``--plot``, for the help text.
    step
        Unit of the progress lines, for the help text.
    """
    options = (
        click.argument("store"),
        click.option(
            "--n-features",
            type=NumberOrAuto(),
            required=True,
            metavar="N|auto",
            help="Number of features to choose. With auto, the search continues as long as "
            "some remaining feature depends significantly on the target, given the features "
            "already chosen. Not possible with vmi, or with hofs and criterion=sum or mean.",
        ),
        target_option,
        reading_options,
        click.option(
            "--include",
            multiple=True,
            metavar="NAME",
            help="Choose the feature NAME before all others. Can be repeated: "
            "the features are chosen in this order.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="NAME",
            help="Never choose the feature NAME. Can be repeated.",
        ),
        click.option(
            "--min-gain",
            metavar="G",
            help="Stop when the best remaining feature adds less information than G. Without "
            "this option, the methods vmi and hofs (with criterion=joint) do not stop: when no "
            "remaining feature adds enough, they restart, and rank the remaining features without "
            "regard to those already chosen. G is a number of nats, such as 0.01, or a percentage "
            "of the entropy of the target, such as 1%. The first feature is always chosen.",
        ),
        click.option(
            "--alpha",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            metavar="P",
            help="With --n-features auto: the significance level of a round. If, given the "
            "features already chosen, no remaining feature depends on the target, the round still "
            "chooses one with probability P. Default: 0.05.",
        ),
        click.option(
            "--checkpoint",
            metavar="DIR",
            help="Save the search in the directory DIR after every round. If the run is "
            "interrupted, repeat the command to resume it.",
        ),
        click.option(
            "--output",
            callback=output_check(kind),
            metavar="PATH",
            help="Save the result to PATH. If PATH ends with .zarr or .nc, the complete result is "
            "saved. If it ends with .json, the JSON of --json is saved, and if it ends with .csv, "
            'a table with one row per chosen feature. If PATH is "-", the JSON is printed instead.',
        ),
        json_option,
        click.option(
            "--plot",
            callback=check_picture,
            metavar="FILE",
            help=f"Save {figure} to FILE, whose name must end with .png, .svg or .pdf.",
        ),
        progress_option(step),
        explain_option,
        cluster_options,
        debug_option,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathered(**given: Any) -> None:
            shared = {field.name: given.pop(field.name) for field in fields(Search)}
            command(Search(**shared), **given)

        decorated: Callable[..., None] = gathered
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def run_search(
    search: Search,
    methods: list[Method],
    n_resamples: int,
    *,
    run: Callable[[dict[str, Any]], Found],
    write: Callable[[Found, str], None],
    tree: Callable[[Found], Mapping[str, Any]],
    rounds_in: Callable[[str], int],
) -> None:
    """Run a search and print the result, or print its plan if `--explain` was given.

    Parameters
    ----------
    search
        The options.
    methods
        The methods.
    n_resamples
        Number of bootstrap resamples.
    run
        Function that returns the result. Its argument is a dict with the arguments that `select`
        and `compare` share.
    write
        Function that writes the result to the path of ``--output``.
    tree
        Function that returns the result as values that JSON can store, for ``--json``.
    rounds_in
        Function that returns how many rounds of this search a checkpoint contains.
    """
    done: dict[str, int] = {}

    def listen(event: Event) -> None:
        if isinstance(event, RoundStarted):
            done[event.method] = event.rank - 1
        elif isinstance(event, RoundEnded):
            done[event.method] = event.rank

    def advice() -> str:
        n_rounds = None
        if isinstance(search.n_features, int):
            n_rounds = search.n_features * len(methods)
        if search.checkpoint is None:
            return how_to_resume(sum(done.values()), n_rounds, None)
        if n_rounds is not None:
            n_rounds *= 1 + n_resamples
        return how_to_resume(rounds_in(search.checkpoint), n_rounds, search.checkpoint)

    advise(advice)
    from hofs_dask.api import estimate

    check_store(search.store, search.target)
    request = search.request()
    with cluster(search.scheduler, search.workers, search.cluster_file):
        if search.explain:
            options = options_for(search.store)
            plan = estimate(
                **request, method=methods, n_resamples=n_resamples, storage_options=options
            )
            print_plan(plan, as_json=search.as_json or search.output == STDOUT)
            return
        result = run(
            request
            | {
                "min_gain": _min_gain(search.min_gain),
                "alpha": search.alpha,
                "checkpoint": search.checkpoint,
                "storage_options": options_for(search.store, search.checkpoint),
                "callback": listen,
                "progress": search.progress,
            }
        )
    # Print first, so that the result of a long run is not lost if the disk is full.
    if search.as_json or search.output == STDOUT:
        print_json(tree(result))
    else:
        click.echo(repr(result))
    if search.output is not None and search.output != STDOUT:
        write(result, search.output)
    if search.plot is not None:
        draw(result, search.plot)
