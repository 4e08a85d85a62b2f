"""Parsing of method names and their options, and the list of methods in ``--help``."""

from __future__ import annotations

import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from hofs_dask.cli.sections import Sectioned
from hofs_dask.errors import unknown

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method

#: Width of the options in a help text. Names and options together fit a terminal of 80 characters.
WIDTH = 64


class MethodCommand(Sectioned):
    """A click command whose help contains the list of methods.

    The methods are imported only when the help is shown.

    Parameters
    ----------
    several
        Whether the command runs several methods. If so, the help also names the methods that run
        by default.
    """

    def __init__(self, *args: Any, several: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.several = several

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the methods before the examples."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(method_list(several=self.several))
        super().format_epilog(ctx, formatter)


def complete_method(_ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    """Return the names of methods that complete ``text``, whose last name may be unfinished.

    Examples
    --------
    >>> complete_method(None, None, "mim,jm")
    ['mim,jmi', 'mim,jmi3', 'mim,jmim']
    """
    from hofs_dask.methods.registry import METHOD_NAMES

    done, comma, last = text.rpartition(",")
    return sorted(done + comma + name for name in METHOD_NAMES if name.startswith(last))


def parse_method(text: str, options: Sequence[str] = ()) -> Method:
    """Return the method for ``NAME[:KEY=VALUE...]`` and further options ``KEY=VALUE``.

    Examples
    --------
    >>> parse_method("mifs:beta=0.5")
    MIFS(beta=0.5)
    >>> parse_method("hofs", ["criterion=sum", "threshold=0.3"]).threshold
    0.3
    >>> parse_method("mifs:bta=0.5")
    Traceback (most recent call last):
    ...
    ValueError: unknown option of mifs 'bta'; valid: 'beta'
    """
    from hofs_dask.methods.registry import as_method

    name, *own = text.split(":")
    kind = type(as_method(name))
    hints = typing.get_type_hints(kind)
    valid = [field.name for field in fields(kind)]
    given: dict[str, Any] = {}
    for option in (*own, *options):
        key, equals, value = option.partition("=")
        if not valid:
            raise ValueError(f"{name} has no options; leave out {option!r}")
        if not equals:
            raise ValueError(f"{option!r} has no '='; give KEY=VALUE, such as {valid[0]}=...")
        if key not in valid:
            raise unknown(f"option of {name}", key, valid)
        if key in given:
            raise ValueError(f"{key} is given twice; give it once")
        given[key] = _typed(key, value, hints[key])
    return kind(**given)


def parse_methods(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Method]:
    """Return the methods by label; a text may contain several methods, separated by commas."""
    from hofs_dask.methods.registry import METHODS

    chosen: dict[str, Method] = {}
    for text in ",".join(texts or METHODS).split(","):
        try:
            method = parse_method(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        if method.label in chosen:
            raise click.BadParameter(f"{method.label} is given twice; give it once")
        chosen[method.label] = method
    return chosen


def method_list(*, several: bool = False) -> str:
    """Return all methods with their options, one per line, for the end of a help text.

    Parameters
    ----------
    several
        Whether to add the methods that `hofs_dask.compare` runs by default.

    Examples
    --------
    >>> "  mifs      beta=1.0" in method_list().splitlines()
    True
    """
    from hofs_dask.methods.registry import METHOD_NAMES, METHODS, as_method

    # click keeps the line breaks of a paragraph that starts with \b.
    lines = [
        "\b",
        "Methods and their options (see docs/methods.md). The first value of an option",
        "is the default:",
    ]
    for name in METHOD_NAMES:
        options = textwrap.wrap(" ".join(_choices(type(as_method(name)))), WIDTH) or [""]
        heads = [name, *[""] * (len(options) - 1)]
        lines += [
            f"  {head:<8}  {text}".rstrip() for head, text in zip(heads, options, strict=True)
        ]
    if several:
        lines += ["", "\b", *textwrap.wrap(f"Compared by default: {', '.join(METHODS)}", WIDTH)]
    return "\n".join(lines)


def _choices(kind: type[Method]) -> Iterator[str]:
    """Yield every option of a method as KEY=VALUE|VALUE..., the default first."""
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        words = [_word(field.default)]
        words += [_word(value) for value in _literals(hints[field.name]) if value != field.default]
        yield f"{field.name}={'|'.join(words)}"


def _literals(hint: Any) -> Iterator[object]:
    """Yield the values of all Literal types in a type hint."""
    if typing.get_origin(hint) is typing.Literal:
        yield from typing.get_args(hint)
    else:
        for part in typing.get_args(hint):
            yield from _literals(part)


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _typed(key: str, text: str, hint: Any) -> object:
    """Return a text converted to the type of an option."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    if type(None) in kinds and text.lower() == "none":
        return None
    for value in _literals(hint):
        if str(value) == text:
            return value
    if float in kinds:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{key} is {text!r}; give a number") from None
    return text
