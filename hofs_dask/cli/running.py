"""How commands run: errors are printed in one line, and interruptions with advice."""

from __future__ import annotations

import ast
import atexit
import logging
import os
import re
import shlex
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

#: Key of the click context for a function that returns how to resume after an interruption.
ADVICE = "hofs_dask.advice"
#: Key of the click context that ``--debug`` sets.
DEBUG = "hofs_dask.debug"

#: Errors with messages for users; for other errors the type is shown too.
EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)

#: An option with its value in Python, or an option at the start of a sentence.
OPTION = re.compile(
    r"""^([a-z_]+)(?= is )|\b([a-z_]+)=(\[[^\]]*\]|'[^']*'|"[^"]*"|-?[\d.]*\d|None\b)""",
)

#: Signals that end a command.
STOPS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """The exception that SIGTERM raises; it is handled like Ctrl-C."""


class Commands(click.Group):
    """A command group that reports errors in one line, and how to resume after interruptions."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the program of this process; tests call `main` instead."""
        # before and after the command, a signal ends the process, as there is nothing to clean up
        for number in STOPS:
            signal.signal(number, _leave)
        # atexit calls the function that was registered first as the last one, just before Python
        # resets its signal handlers
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        # without this, Dask and asyncio would log the error again, at length
        logging.disable(logging.CRITICAL)
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with _stoppable(), _plain_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
            word = "Terminated" if number == signal.SIGTERM else "Interrupted"
            advice = ctx.meta[ADVICE]() if ADVICE in ctx.meta else ""
            handled = [each for each in STOPS if signal.getsignal(each) is _leave]  # none in tests
            again: list[int] = []
            for each in handled:  # a second signal must not end the process before the message
                signal.signal(each, lambda number, _: again.append(number))
            click.echo(f"{_line_start()}{word}{': ' if advice else '.'}{advice}", err=True)
            for each in handled:
                signal.signal(each, _quit)
            if again:
                _quit(again[0], None)
            ctx.exit(128 + number)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            options = (
                {} if command is None else {each.name: each.multiple for each in command.params}
            )
            raise click.ClickException(in_shell(_one_line(error), options)) from error


def advise(advice: Callable[[], str]) -> None:
    """Print this advice when the running command is interrupted."""
    click.get_current_context().meta[ADVICE] = advice


def _leave(number: int, frame: types.FrameType | None) -> None:
    """Signal handler that ends the process at once, with a message."""
    word = "Aborted!" if number == signal.SIGINT else "Terminated."
    os.write(2, f"{_line_start()}{word}\n".encode())
    _quit(number, frame)


def _quit(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - signal handler
    """Signal handler that ends the process at once, without a message."""
    os._exit(128 + number)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let the first signal raise a KeyboardInterrupt, and the second signal end the process."""

    def stop(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - signal handler
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
    """Show warnings as one line, without file and line number."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"Warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _line_start() -> str:
    """Return the start of a message: a new line on a terminal, because the terminal printed ^C."""
    return "\n" if sys.stderr.isatty() else ""


def _one_line(error: Exception) -> str:
    notes = getattr(error, "__notes__", [])
    message = "; ".join(" ".join(text.split()) for text in (str(error), *notes) if text)
    message = message.replace("the same call", "the same command")
    if isinstance(error, EXPECTED) and message:
        return message
    return f"{type(error).__name__}: {message} (--debug shows the traceback)"


def in_shell(message: str, options: Mapping[str, bool]) -> str:
    """Return a message in which options are written as in the shell, not as in Python.

    Parameters
    ----------
    message
        The message of an error of a Python function.
    options
        The Python names of the options that the command has, and whether each can be repeated.

    Examples
    --------
    >>> options = {"exclude": True, "on_bad": False, "n_features": False}
    >>> in_shell("leave them out with exclude=['a b', 'c'] or on_bad='skip'", options)
    "leave them out with --exclude 'a b' --exclude c or --on-bad skip"
    >>> in_shell("n_features is 20 but only 2 features can be chosen", options)
    '--n-features is 20 but only 2 features can be chosen'
    """

    def spelled(found: re.Match[str]) -> str:
        first, name, value = found.groups()
        if (first or name) not in options:
            return found[0]
        option = f"--{(first or name).replace('_', '-')}"
        if first:
            return option
        try:
            given = ast.literal_eval(value.replace(", ...]", "]"))
        except (SyntaxError, ValueError):
            return found[0]
        if not isinstance(given, list):
            given = ["none" if given is None else given]
        texts = [str(each) for each in given]
        several = texts if options[name] else [",".join(texts)]
        more = " ..." if value.endswith(", ...]") else ""
        return " ".join(f"{option} {shlex.quote(text)}" for text in several) + more

    return OPTION.sub(spelled, message)
