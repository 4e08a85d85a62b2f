"""How a command runs: errors in one line, signals, and how to resume after an interruption."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

#: Where a command leaves a function that says how to resume after an interruption.
ADVICE = "hofs_dask.advice"
#: Where ``--debug`` leaves a mark.
DEBUG = "hofs_dask.debug"

#: Errors whose message is written for the user; for any other the type is shown too.
EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)

#: Signals that end a command.
STOPS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """The process was asked to end; handled like Ctrl-C."""


class Commands(click.Group):
    """Commands that report errors in one line, and how to resume when they are interrupted."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the program of this process; tests run `main`."""
        # before the command runs and after it, there is nothing to clean up
        for number in STOPS:
            signal.signal(number, _leave)
        # the first that is registered is called last: then Python forgets its handlers
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        # Dask and asyncio describe at length what the error says in one line
        logging.disable(logging.CRITICAL)
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            with _stoppable(), _plain_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
            word = "Terminated" if number == signal.SIGTERM else "Interrupted"
            advice = ctx.meta[ADVICE]() if ADVICE in ctx.meta else ""
            for each in STOPS:
                if signal.getsignal(each) is _leave:  # as a program
                    signal.signal(each, _quit)
            click.echo(f"{_line_start()}{word}{': ' if advice else '.'}{advice}", err=True)
            ctx.exit(128 + number)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            raise click.ClickException(_one_line(error)) from error


def advise(advice: Callable[[], str]) -> None:
    """Print this advice when the running command is interrupted."""
    click.get_current_context().meta[ADVICE] = advice


def _leave(number: int, frame: types.FrameType | None) -> None:
    """End the process at once; for signals when it cannot take them, or has taken one before."""
    word = "Aborted!" if number == signal.SIGINT else "Terminated."
    os.write(2, f"{_line_start()}{word}\n".encode())
    _quit(number, frame)


def _quit(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as it is called
    """End the process at once, without a word: there was one."""
    os._exit(128 + number)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let the first signal end the block like Ctrl-C does in Python, and a second the process."""

    def stop(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as it is called
        for each in STOPS:
            signal.signal(each, _leave)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as one line, without the place in the program that they come from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"Warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _line_start() -> str:
    """Return what goes before a message: on a terminal the line has a ^C in it."""
    return "\n" if sys.stderr.isatty() else ""


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, EXPECTED) and message:
        return message
    return f"{type(error).__name__}: {message} (--debug shows where)"
