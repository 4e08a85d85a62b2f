"""What goes wrong, said with the names of the things that were given."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class CodeStoreError(OSError):
    """A code store that cannot be read: names the store, the array and the chunk."""


class CheckpointError(OSError):
    """A checkpoint that cannot be read, written or locked: names it, and says why."""


#: Valid names that an error tells: as many as there are methods.
SHOWN = 12


def unknown(what: str, given: object, valid: Iterable[object]) -> ValueError:
    """A ValueError that names what was given and the valid names, nearest first.

    Parameters
    ----------
    what
        What kind of name it is, for example ``"method"``.
    given
        The name that was not found.
    valid
        The names that would have been found.

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
    """The first few names, for a message.

    Examples
    --------
    >>> some_of(["a", "b", "c"], 2)
    'a, b, ...'
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown + ", ..." * (len(names) > most)
