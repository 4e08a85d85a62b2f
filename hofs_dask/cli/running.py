"""How a command runs: errors in one line, signals, and how to go on after it was cut short."""

from __future__ import annotations

import logging
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

#: Where a command leaves a function that says how to go on after it was cut short.
ADVICE = "hofs_dask.advice"
#: Where ``--debug`` leaves a mark.
DEBUG = "hofs_dask.debug"

#: Errors whose message is written for the user; of any other the type is told too.
EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)


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


def advise(advice: Callable[[], str]) -> None:
    """Let the command that runs say this when it is cut short."""
    click.get_current_context().meta[ADVICE] = advice


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
