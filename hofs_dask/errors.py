"""Exceptions of the package, and helpers for messages that list valid names."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Raised = TypeVar("Raised", bound=BaseException)


class CodeStoreError(OSError):
    """Raised if a code store cannot be read or written; the message names the store and why."""


class CheckpointError(OSError):
    """Raised if a checkpoint cannot be read, written or locked; the message names it and why."""


#: What to do after the cause of an error was removed.
AGAIN = "when the cause is removed, run the same call again"


@contextlib.contextmanager
def advised(advice: str) -> Iterator[None]:
    """Add a note to errors of the ``with`` block that have a cause outside of the call.

    These are errors of storage, memory and cluster. An error that says itself to run the same call
    gets no note.

    Examples
    --------
    >>> try:
    ...     with advised(f"nothing was saved: {AGAIN}"):
    ...         raise MemoryError("no memory")
    ... except MemoryError as error:
    ...     error.__notes__
    ['nothing was saved: when the cause is removed, run the same call again']
    """
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        if "run the same call" not in f"{error} {getattr(error, '__notes__', '')}":
            error.add_note(advice)
        raise


def noted(made: Raised, error: BaseException) -> Raised:
    """Return a new error with the notes of the error that caused it, unless its message has them.

    Examples
    --------
    >>> error = OSError("please wait")
    >>> error.add_note(AGAIN)
    >>> noted(OSError("cannot be read"), error).__notes__
    ['when the cause is removed, run the same call again']
    """
    for note in getattr(error, "__notes__", []):
        if note not in str(made):
            made.add_note(note)
    return made


#: Maximum number of valid names in an error message.
SHOWN = 12


def unknown(what: str, given: object, valid: Iterable[object]) -> ValueError:
    """Return a ValueError with the given name and the valid names, most similar first.

    Parameters
    ----------
    what
        The kind of name, for example ``"method"``.
    given
        The unknown name.
    valid
        The valid names.

    Examples
    --------
    >>> raise unknown("method", "hosf", ["mim", "hofs"])
    Traceback (most recent call last):
    ...
    ValueError: unknown method 'hosf'; valid: 'hofs', 'mim'
    """
    names = list(valid)
    text = str(given).lower()
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, text, str(name).lower()).ratio())
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ValueError(f"unknown {what} {given!r}; valid: {shown}{rest}")


def some_of(names: Sequence[object], most: int = 8) -> str:
    """Return the first ``most`` names as text for a message, with dots if there are more.

    Blank names, as of the column of an index in CSV files, are shown in quotes.

    Examples
    --------
    >>> some_of(["a", "b", "c"], 2)
    'a, b, ...'
    >>> some_of(["a", ""])
    "a, ''"
    """
    shown = ", ".join(str(name) if str(name).strip() else repr(name) for name in names[:most])
    return shown + ", ..." * (len(names) > most)


#: Maximum number of features whose problems a message describes. The others are only counted.
MOST_SHOWN = 10


def refusal(texts: Sequence[str], names: Sequence[object]) -> str:
    """Return one error message for all features that cannot be used.

    Examples
    --------
    >>> refusal(["feature 'a' is bad", "feature 'b' is bad"], ["a", "b"])
    "2 features cannot be used: feature 'a' is bad; feature 'b' is bad. Convert them, or leave ..."
    """
    if len(texts) == 1:
        return texts[0]
    shown = "; ".join(texts[:MOST_SHOWN])
    more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    return (
        f"{len(texts)} features cannot be used: {shown}{more}. Convert them, or leave them out "
        f"with exclude=[{some_of([repr(name) for name in names])}] or on_bad='skip'"
    )


def skipped(texts: Sequence[str]) -> tuple[str, ...]:
    """Return notes about skipped features, made from messages such as "feature 'a' is ...; advice".

    Examples
    --------
    >>> skipped(["feature 'a' has 2 infinite values; replace them"])
    ("skipped feature 'a', which has 2 infinite values",)
    """
    notes = []
    for text in texts:
        facts = text.partition(";")[0]
        label, _, rest = facts.partition("' ")
        notes.append(f"skipped {label}', which {rest}" if rest else f"skipped {facts}")
    return tuple(notes)
