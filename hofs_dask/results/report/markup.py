"""HTML and SVG elements whose text is escaped unless it is marked as markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

# Characters that HTML forbids or that change the text around them: controls except white space,
# marks that change the direction of writing, and halves of characters.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef"
    "\ufffe\uffff\ud800-\udfff]"
)
#: Longer texts are cut, so that a name cannot fill a page.
LONGEST = 120
_VOID = ("meta",)

#: Attributes of an element by name.
Attrs = dict[str, str | float | bool | None]


class Markup(str):
    """Text that is HTML or SVG. All other text is escaped when it is put into an element."""

    __slots__ = ()


def clean(text: str) -> str:
    r"""Return text without characters that are invalid or that change the text around them.

    Examples
    --------
    >>> clean("a\x00b\u202ec"), len(clean(1000 * "x"))
    ('a�b�c', 120)
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 31]}…{text[-30:]}"
    return _FORBIDDEN.sub("\ufffd", text)


def escaped(text: str) -> Markup:
    """Return text as markup: markup as it is, other text with its special characters escaped.

    Examples
    --------
    >>> escaped("a < b"), escaped(Markup("<b>"))
    ('a &lt; b', '<b>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_FORBIDDEN.sub("\ufffd", text)))


def joined(parts: Iterable[str]) -> Markup:
    """Return the parts one after the other, as markup.

    Examples
    --------
    >>> joined([Markup("<br>"), "<"])
    '<br>&lt;'
    """
    return Markup("".join(map(escaped, parts)))


def element(
    tag: str,
    attrs: Mapping[str, str | float | bool | None] | None = None,
    /,
    *children: str,
) -> Markup:
    """Return an element with attributes and children, both escaped.

    Attributes that are None or False are left out. Numbers have at most two decimals.

    Examples
    --------
    >>> element("td", {"class": "a", "title": '"', "width": 1 / 3, "hidden": False}, "<script>")
    '<td class="a" title="&quot;" width="0.33">&lt;script&gt;</td>'
    """
    written = "".join(
        f" {name}" if value is True else f' {name}="{escaped(_number(value))}"'
        for name, value in (attrs or {}).items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(children)}</{tag}>")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:.2f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
