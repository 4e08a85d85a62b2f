"""Exceptions of the package, and helpers for messages that list valid names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class CodeStoreError(OSError):
    """A code store cannot be read; the message names the store, the array and the chunk."""


class CheckpointError(OSError):
    """A checkpoint cannot be read, written or locked; the message names it and the reason."""


#: Maximum number of valid names in an error message; enough for all methods.
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
    """Return the first ``most`` names as text for a message.

    Examples
    --------
    >>> some_of(["a", "b", "c"], 2)
    'a, b, ...'
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown + ", ..." * (len(names) > most)
