"""The shell face: ``hofs-dask encode``, ``select``, ``info`` and ``demo``.

What takes long to import is imported by the command that needs it.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import signal
import sys
import time
import types
import typing
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from distributed import Client

    from hofs_dask.config import HOFS
    from hofs_dask.events import Event
    from hofs_dask.selection import Selection

#: Seconds to wait for a scheduler, and then for its first worker.
PATIENCE = 10

#: Where a command leaves a function that says how to go on after it was cut short.
ADVICE = "hofs_dask.advice"
DEBUG = "hofs_dask.debug"

#: Errors whose message is written for the user; of any other the type is told too.
EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)

TABLES = (".json", ".csv")
OUTPUTS = (".zarr", ".nc", *TABLES)
#: Columns of a table of the ranks.
COLUMNS = (
    "rank",
    "feature",
    "index",
    "subset",
    "score",
    "gain",
    "information",
    "margin",
    "runner_up",
    "epoch",
    "forced",
    "relevance",
)

Command = typing.TypeVar("Command", bound=Callable[..., Any])


class Terminated(KeyboardInterrupt):
    """The process was asked to end; taken like Ctrl-C wherever that is taken."""


class Commands(click.Group):
    """Commands that say what went wrong in one line, and how to go on when they are cut short."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        # a client that is cut short leaves tracebacks of its own tasks there
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        try:
            with _terminable(), _plain_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
            word = "Terminated" if number == signal.SIGTERM else "Interrupted"
            advice = ctx.meta[ADVICE]() if ADVICE in ctx.meta else ""
            # On a terminal the line has a ^C in it.
            before = "\n" if sys.stderr.isatty() else ""
            click.echo(f"{before}{word}{': ' if advice else '.'}{advice}", err=True)
            ctx.exit(128 + number)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            raise click.ClickException(_one_line(error)) from error


def _examples(*commands: str) -> str:
    # The first character keeps the lines as they are.
    return "\n".join(["\b", "Example:", *(f"  hofs-dask {command}" for command in commands)])


def _bins(_ctx: click.Context, _param: click.Parameter, text: str) -> int | str | None:
    if text == "none":
        return None
    if text in ("auto", "width"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a number nor auto, width or none")
    return int(text)


def _chunks(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    if text is None:
        return None
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise click.BadParameter(f"{text!r} is not two numbers such as 100000,64")
    return int(numbers[0]), int(numbers[1])


def _output(_ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Return the path, once it is known that a result can be written there after a long run."""
    if path is None:
        return None
    if not path.endswith(OUTPUTS):
        raise click.BadParameter(f"{path!r} should end with one of {' '.join(OUTPUTS)}")
    if path.endswith(".nc") and not (find_spec("h5netcdf") and find_spec("h5py")):
        raise click.BadParameter(
            "a .nc file needs h5netcdf and h5py: pip install 'hofs-dask[netcdf]', or give a path "
            "that ends with .zarr"
        )
    if "://" not in path:
        if not Path(path).absolute().parent.is_dir():
            raise click.BadParameter(
                f"there is no folder {str(Path(path).parent)!r}: make it first"
            )
        if _is_occupied(path):
            raise click.BadParameter(f"{path!r} holds something that is not a result")
    return path


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


@click.group(
    cls=Commands,
    epilog=_examples(
        "encode data.zarr codes.zarr --target y",
        "select codes.zarr --n-features 30 --checkpoint run --output result.zarr",
        "info result.zarr",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hofs-dask", prog_name="hofs-dask")
def main() -> None:
    """Find the features that say most about a label, and which of them work together.

    Results go to the standard output, progress and errors to the standard error. The exit code is
    0 when all is done, 1 for an error of the data, 2 for one of the command line, 130 after
    Ctrl-C and 143 when terminated.
    """


@main.command(
    epilog=_examples("encode data.zarr codes.zarr --target crop --nominal soil --workers 4")
)
@click.argument("source")
@click.argument("store")
@click.option("--target", required=True, metavar="NAME", help="The variable that is the label.")
@click.option("--feature-dim", metavar="DIM", help="The dimension that holds the features.")
@click.option(
    "--nominal",
    multiple=True,
    metavar="NAME",
    help="A feature whose numbers are categories. May be given again.",
)
@click.option(
    "--target-kind",
    type=click.Choice(["auto", "class", "ordinal", "continuous"]),
    default="auto",
    show_default=True,
    help="What the label is.",
)
@click.option(
    "--bins",
    callback=_bins,
    metavar="NUMBER|auto|width|none",
    default="auto",
    show_default=True,
    help="Codes of a feature with more values; none for integers that are codes already.",
)
@click.option(
    "--chunks",
    callback=_chunks,
    metavar="SAMPLES,FEATURES",
    help="The size of a chunk. By default about 8 MiB.",
)
@cluster_options
@debug_option
def encode(
    source: str,
    store: str,
    target: str,
    feature_dim: str | None,
    nominal: tuple[str, ...],
    target_kind: str,
    bins: int | str | None,
    chunks: tuple[int, int] | None,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """Write the codes of a Zarr store, one byte a cell.

    SOURCE is read and its codes are written to STORE, from which any number of selections read. A
    STORE of the same data and options is reused, with new labels where the target is new.
    """
    _advise(lambda: "the store is not finished; the same command writes it again.")
    from hofs_dask.api import encode
    from hofs_dask.data.source import open_source

    named: list[Hashable] | None = None
    if nominal:
        named = _features(nominal, open_source(source, target, feature_dim=feature_dim).names)
    with cluster(scheduler, workers):
        codes = encode(
            source,
            target,
            store,
            feature_dim=feature_dim,
            nominal=named,
            target_kind=target_kind,
            bins=bins,
            chunks=chunks,
        )
    click.echo(repr(codes))


@main.command(
    epilog=_examples(
        "select codes.zarr --n-features 30 --checkpoint run --output result.zarr",
        "select data.zarr --target y --n-features 5 --option criterion=sum",
        "select codes.zarr --n-features 30 --scheduler tcp://host:8786",
    )
)
@click.argument("store")
@click.option(
    "--n-features",
    type=click.IntRange(min=1),
    required=True,
    metavar="T",
    help="How many features to choose.",
)
@click.option(
    "--method", default="hofs", show_default=True, metavar="NAME", help="How to choose them."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the method, such as criterion=sum. May be given again.",
)
@click.option(
    "--target",
    metavar="NAME",
    help="The label; may be left out for a code store that has one alone.",
)
@click.option(
    "--include", multiple=True, metavar="NAME", help="A feature that comes first. Again for more."
)
@click.option(
    "--exclude", multiple=True, metavar="NAME", help="A feature never chosen. Again for more."
)
@click.option(
    "--min-gain", type=float, metavar="G", help="Stop when the best feature gains less, in nats."
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Keep every round here: the same command goes on where a run was cut short.",
)
@click.option(
    "--output",
    callback=_output,
    metavar="PATH",
    help="Where to keep the result: .zarr or .nc hold all of it, .json and .csv the ranks.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="A line a round on the standard error. By default where that is a terminal.",
)
@click.option(
    "--estimate",
    "only_estimate",
    is_flag=True,
    help="Say what memory a code store's selection takes of a worker, and run nothing.",
)
@cluster_options
@debug_option
def select(
    store: str,
    n_features: int,
    method: str,
    options: tuple[str, ...],
    target: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    min_gain: float | None,
    checkpoint: str | None,
    output: str | None,
    progress: bool | None,
    only_estimate: bool,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """Choose features, ranked, in subsets that work together.

    STORE is a code store, or any Zarr store, which then is encoded first, for this run alone.
    """
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if isinstance(event, RoundStarted):
            done = event.rank - 1
        elif isinstance(event, RoundEnded):
            done = event.rank

    _advise(lambda: _how_to_go_on(done, n_features, checkpoint))
    from hofs_dask.api import estimate, select
    from hofs_dask.data.codes import is_codes
    from hofs_dask.events import RoundEnded, RoundStarted

    chosen = parse_method(method, options)
    if only_estimate:
        with cluster(scheduler, workers):
            click.echo(str(estimate(store, n_features, method=chosen)))
        return
    if target is None and _exists(store) and not is_codes(store):
        raise click.UsageError(
            f"{store} is not a code store, so that its label has to be named: add --target NAME"
        )
    names = _names(store, target) if include or exclude else ()
    with cluster(scheduler, workers):
        result = select(
            store,
            target,
            n_features,
            method=chosen,
            include=_features(include, names),
            exclude=_features(exclude, names),
            min_gain=min_gain,
            checkpoint=checkpoint,
            callback=listen,
            progress=progress,
        )
    # First what cannot fail, so that the result of a long run is not lost with a full disk.
    click.echo(repr(result))
    if output is not None:
        _write(result, output)


@main.command(epilog=_examples("info codes.zarr"))
@click.argument("path")
@debug_option
def info(path: str) -> None:
    """Say what a path holds.

    PATH is a code store, a saved selection or a checkpoint.
    """
    click.echo(describe(path))


@main.command(epilog=_examples("demo --samples 20000 --output /tmp/demo"))
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default="hofs-demo",
    show_default=True,
    help="A folder for the data, the result and the picture.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=100),
    default=100_000,
    show_default=True,
    help="How many samples to draw.",
)
@click.option(
    "--criterion",
    type=click.Choice(["joint", "sum", "mean"]),
    default="joint",
    show_default=True,
    help="What HOFS maximises: out of sample, as in the paper, or as in its program.",
)
@debug_option
def demo(output: Path, samples: int, criterion: typing.Literal["joint", "sum", "mean"]) -> None:
    """Select features of known data on a local cluster.

    The data is written as a chunked Zarr store, and selected from on two processes. Its nine
    features come in three families, {x1 x4 x5}, {x2 x6 x7} and {x3 x8 x9}: the subsets to be found.
    """
    from hofs_dask.api import select
    from hofs_dask.config import HOFS
    from hofs_dask.demo import draw, summary, write_data

    output.mkdir(parents=True, exist_ok=True)
    data = output / "tree.zarr"
    write_data(data, samples)
    click.echo(f"{samples} samples of nine features and the label y: {data}")
    with cluster(None, 2) as client:
        assert client is not None
        click.echo(f"Dask cluster of 2 processes: {client.dashboard_link}\n")
        start = time.perf_counter()
        result = select(data, "y", n_features=9, method=HOFS(criterion=criterion))
        seconds = time.perf_counter() - start
    click.echo(summary(result))
    result.to_zarr(output / "result.zarr")
    picture = draw(result, output / "result.png")
    click.echo(f"\nresult   {output / 'result.zarr'}\npicture  {picture}\ntime     {seconds:.1f} s")


@contextmanager
def cluster(scheduler: str | None, workers: int | None) -> Iterator[Client | None]:
    """The client of the scheduler or of that many local processes; None for Dask's threads."""
    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers starts a cluster and --scheduler names one: give one")
    if scheduler is not None:
        with _connected(scheduler) as client:
            yield client
    elif workers is not None:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                env={"NUMBA_NUM_THREADS": "1"},
            ) as local,
            Client(local) as client,
        ):
            client.run(_ignore_interrupts)
            yield client
    else:
        yield None


def parse_method(name: str, options: Sequence[str]) -> HOFS:
    """The method object of a name and of options as they are typed.

    Examples
    --------
    >>> parse_method("hofs", ["criterion=sum", "threshold=0.3"]).threshold
    0.3
    >>> parse_method("hofs", ["treshold=0.3"])
    Traceback (most recent call last):
    ...
    click.exceptions.BadParameter: unknown option of hofs 'treshold'; valid: 'threshold', ...
    """
    from hofs_dask.config import as_method
    from hofs_dask.errors import unknown

    try:
        kind = type(as_method(name))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--method") from error
    hints = typing.get_type_hints(kind)
    valid = [field.name for field in fields(kind)]
    given: dict[str, Any] = {}
    try:
        if options and not valid:
            raise ValueError(f"{name} has no options; leave out {options[0]!r}")
        for option in options:
            key, equals, text = option.partition("=")
            if not equals:
                raise ValueError(f"{option!r} has no '='; give KEY=VALUE, such as {valid[0]}=...")
            if key not in valid:
                raise unknown(f"option of {name}", key, valid)
            given[key] = _typed(key, text, hints[key])
        return kind(**given)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--option") from error


def describe(path: str) -> str:
    """What is at a path, on one screen.

    Examples
    --------
    >>> describe("no/such/path")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no such path: 'no/such/path'
    """
    from hofs_dask.checkpoint import FILE
    from hofs_dask.data.codes import is_codes
    from hofs_dask.selection import load

    if not _exists(path):
        raise FileNotFoundError(f"no such path: {path!r}")
    if (Path(path) / FILE).exists():
        return _describe_checkpoint(path)
    if is_codes(path):
        return _describe_codes(path)
    try:
        return repr(load(path))
    except ValueError as error:
        raise ValueError(
            f"{path!r} is neither a code store nor a saved selection nor a checkpoint; a Zarr "
            "store with data becomes a code store with: hofs-dask encode SOURCE STORE --target NAME"
        ) from error


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """Yield a client of a scheduler that answers, has workers and runs the same versions."""
    from concurrent.futures import CancelledError

    from distributed import Client
    from distributed.comm.core import CommClosedError

    from hofs_dask.engine.cluster import check_cluster

    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answered at {scheduler!r} within {PATIENCE} s; give the address "
            "that the scheduler printed when it started, such as tcp://host:8786"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ConnectionError(
                f"the scheduler at {scheduler} has no workers; start some with: "
                f"dask worker {scheduler}"
            ) from error
        try:
            check_cluster(client)
            yield client
        except (CancelledError, CommClosedError) as error:
            raise ConnectionError(
                f"the connection to the scheduler at {scheduler} was lost; see its log, start it "
                "again, and run the same command: it goes on where a --checkpoint was given"
            ) from error


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to every process, to the one that the user started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C does."""

    def end(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as it is called
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as one line, without the place in the program that they come from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"Warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, EXPECTED) and message:
        return message
    return f"{type(error).__name__}: {message} (--debug shows where)"


def _advise(advice: Callable[[], str]) -> None:
    click.get_current_context().meta[ADVICE] = advice


def _how_to_go_on(done: int, n_features: int, checkpoint: str | None) -> str:
    if checkpoint is not None:
        kept = _kept_rounds(checkpoint)
        return (
            f"{kept} of {n_features} rounds are kept in {checkpoint}; "
            "run the same command again to go on from there."
        )
    lost = f"{done} of {n_features} rounds were done and are lost; " if done else ""
    return f"{lost}with --checkpoint DIR the same command goes on where it was cut short."


def _kept_rounds(checkpoint: str) -> int:
    from hofs_dask.checkpoint import FILE, read_checkpoint

    if not (Path(checkpoint) / FILE).exists():
        return 0
    return len(read_checkpoint(checkpoint)[1].picks)


def _exists(path: str) -> bool:
    return "://" in path or Path(path).exists()


def _names(store: str, target: str | None) -> tuple[str | int | float, ...]:
    from hofs_dask.data.codes import is_codes, open_codes
    from hofs_dask.data.source import open_source

    opened = open_codes(store, target) if is_codes(store) else open_source(store, target)
    return opened.names


def _features(texts: Iterable[str], names: Iterable[Hashable]) -> list[Hashable]:
    """Return the features that were typed: by name, which may be a number, or by position."""
    by_text = {str(name): name for name in names}
    return [
        by_text[text] if text in by_text else int(text) if text.isdecimal() else text
        for text in texts
    ]


def _typed(key: str, text: str, hint: Any) -> object:
    """Return the value that a text stands for where a value of this type is wanted."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    if type(None) in kinds and text.lower() == "none":
        return None
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{key} is {text!r}; give true or false")
        return text.lower() == "true"
    for kind, wanted in ((int, "a whole number"), (float, "a number")):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise ValueError(f"{key} is {text!r}; give {wanted}") from None
    return text


def _is_occupied(output: str) -> bool:
    """Return whether there is something at a path that is not an earlier result."""
    from hofs_dask.selection import FORMAT, load

    path = Path(output)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    if output.endswith(TABLES) and path.is_file():
        with path.open(errors="replace") as file:
            start = file.read(200)
        return not start.startswith(",".join(COLUMNS)) and f'"format": "{FORMAT}"' not in start
    try:
        load(path)
    except ValueError:
        return True
    return False


def _write(result: Selection, output: str) -> None:
    if not output.endswith(TABLES):
        result.save(output)
        return
    rows = list(_rows(result))
    if output.endswith(".csv"):
        stream = io.StringIO()
        table = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        text = stream.getvalue()
    else:
        head = result.to_dataset().attrs
        head["options"] = json.loads(head["options"])
        text = json.dumps({**head, "subsets": result.subsets, "ranks": rows}, indent=1) + "\n"
    Path(output).write_text(text)


def _rows(result: Selection) -> Iterator[dict[str, Any]]:
    """Yield the figures of each rank; subsets are numbered from 1, as they are printed."""
    data = result.to_dataset()
    columns = {name: data["selected" if name == "feature" else name].values for name in COLUMNS}
    columns["relevance"] = columns["relevance"][result.indices]
    columns["subset"] = columns["subset"] + 1
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        # JSON has no word for a margin over nobody.
        yield {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in zip(COLUMNS, values, strict=True)
        }


def _describe_codes(path: str) -> str:
    """Return what a code store says of itself, with every target that it has."""
    from hofs_dask.data.codes import label_keys, open_codes, store_attributes
    from hofs_dask.data.paths import as_path

    finished = (store_attributes(as_path(path)) or {}).get("complete")
    keys: list[str | None] = [*label_keys(as_path(path))] if finished else [None]
    latest, *others = [repr(open_codes(path, key)) for key in reversed(keys)]
    return "\n".join([latest, *(text.splitlines()[-1] for text in others)])


def _describe_checkpoint(path: str) -> str:
    from hofs_dask.checkpoint import read_checkpoint

    run, snapshot = read_checkpoint(path)
    picks = snapshot.picks
    facts = {"rounds": len(picks), **run}
    lines = [f"Checkpoint {path}"]
    lines += [f"  {name:<19} {value}" for name, value in facts.items() if value not in (None, [])]
    lines += ["", "rank  column  subset    gain  information"]
    lines += [
        f"{rank:>4}  {pick.index:>6}  {pick.subset + 1:>6}  {pick.gain:.4f}"
        f"  {pick.information:>11.4f}"
        for rank, pick in enumerate(picks, start=1)
    ]
    return "\n".join(lines)
