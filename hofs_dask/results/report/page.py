"""The page of a report: one HTML file with its style, its script and its drawings."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import assert_never

from hofs_dask.results.report.content import (
    Cell,
    Column,
    Content,
    Fact,
    Facts,
    Group,
    Groups,
    Picture,
    Report,
    Section,
    Table,
    Text,
)
from hofs_dask.results.report.drawings.canvas import hue
from hofs_dask.results.report.drawings.draw import draw
from hofs_dask.results.report.markup import Attrs, Markup, clean, element, escaped, joined
from hofs_dask.results.style import ABSENT, COLOURS, DARK_COLOURS, LATER

_FOLDER = Path(__file__).parent
#: Tables with more rows than this scroll and can be filtered; larger groups have the full width.
LONG = 12
#: More groups than this are folded.
CARDS = 24


def render_page(report: Report) -> str:
    """Return the page of a report.

    The page forbids itself to load anything: its policy lists the digests of its own style and of
    its own script, so that markup in a name could neither run nor load.

    Examples
    --------
    >>> page = render_page(Report("selection", "<b>", (), (), ()))
    >>> page[:15], "<b>" in page, "&lt;b&gt;" in page
    ('<!DOCTYPE html>', False, True)
    """
    style = _colours() + (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"name": "generator", "content": "hofs_dask report"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", None, f"{report.headline} · hofs_dask"),
        element("style", None, Markup(style)),
    )
    sections = [_section(each) for each in report.sections]
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#content"}, "Skip to the content"),
        _header(report),
        element(
            "div",
            {"class": "layout"},
            _navigation(report),
            element("main", {"id": "content", "tabindex": "-1"}, *sections),
        ),
        element(
            "footer",
            None,
            element("p", None, "Made by hofs_dask. This page works offline and loads nothing."),
        ),
        element("div", {"id": "tip", "hidden": True, "aria-hidden": "true"}),
        element("script", None, Markup(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', {'lang': 'en'}, head, body)}\n"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _colours() -> str:
    """Return the style rules of the colours of subsets, on a light and on a dark page."""

    def rules(colours: tuple[str, ...], absent: str) -> str:
        named = {f"s{number}": colour for number, colour in enumerate(colours)}
        named |= {"sx": LATER, "sa": absent}
        return "".join(f".{name}{{--c:{colour}}}" for name, colour in named.items())

    dark = rules(DARK_COLOURS, "#4A5159")
    return f"{rules(COLOURS, ABSENT)}@media screen and (prefers-color-scheme:dark){{{dark}}}\n"


def _header(report: Report) -> Markup:
    figures = [element("div", {"class": "figure"}, *_fact(each)) for each in report.figures]
    return element(
        "header",
        None,
        element("p", {"class": "kicker"}, f"hofs_dask · {report.kind}"),
        element("h1", None, report.headline),
        *(element("p", {"class": "lead"}, words) for words in report.lead),
        element("dl", {"class": "figures"}, *figures) if figures else "",
    )


def _fact(fact: Fact) -> list[Markup]:
    remark = [element("dd", {"class": "remark"}, fact.remark)] if fact.remark else []
    return [element("dt", None, fact.name), element("dd", None, fact.value), *remark]


def _navigation(report: Report) -> Markup:
    links = [
        element("li", None, element("a", {"href": f"#{each.name}"}, each.title))
        for each in report.sections
    ]
    return element("nav", {"aria-label": "Sections"}, element("ul", None, *links))


def _section(section: Section) -> Markup:
    title = f"{section.name}-title"
    contents = [_content(each) for each in section.content]
    head = element("h2", {"id": title}, section.title)
    attrs = {"id": section.name, "aria-labelledby": title}
    return element("section", attrs, head, *contents)


def _content(content: Content) -> Markup:
    match content:
        case Text():
            return element("p", {"class": "remark" if content.is_remark else None}, content.words)
        case Facts():
            rows = [element("div", None, *_fact(each)) for each in content.facts]
            return element("dl", {"class": "facts"}, *rows)
        case Groups():
            return _groups(content)
        case Table():
            return _table(content)
        case Picture():
            return _picture(content)
    assert_never(content)


def _picture(picture: Picture) -> Markup:
    drawing = draw(picture.drawing, f"{picture.title}. {picture.description}")
    attrs = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": picture.title}
    legend = [element("p", {"class": "legend"}, words) for words in picture.legend]
    caption = element("figcaption", None, picture.title)
    figure = element("figure", None, caption, element("div", attrs, drawing), *legend)
    return joined([figure, _table(picture.table)] if picture.table else [figure])


def _groups(groups: Groups) -> Markup:
    first, rest = groups.groups[:CARDS], groups.groups[CARDS:]
    shown = element("div", {"class": "cards"}, *map(_card, first))
    if not rest:
        return shown
    summary = element("summary", None, f"The other {len(rest)} groups")
    more = element("div", {"class": "cards"}, *map(_card, rest))
    return joined([shown, element("details", None, summary, more)])


def _card(group: Group) -> Markup:
    rows = []
    for member in group.members:
        name = element("span", {"class": "what"}, element("bdi", None, clean(member.name)))
        note = [element("span", {"class": "note"}, member.note)] if member.note else []
        kind = None if group.number is not None else f"single {hue(member.subset)}"
        rows.append(
            element(
                "li",
                {"data-f": str(member.feature), "value": str(member.rank), "class": kind},
                element("span", {"class": "rank"}, str(member.rank)),
                element("span", None, name, *note),
                _bar(member.share),
                element("span", {"class": "added"}, member.added),
            )
        )
    head = element(
        "h3",
        None,
        group.title,
        element("span", {"class": "added"}, group.added),
    )
    is_wide = group.number is None or len(group.members) > LONG
    kinds = ["card", *["wide"] * is_wide, hue(group.number)]
    attrs = {"class": " ".join(filter(None, kinds))}
    return element("div", attrs, head, element("ol", None, *rows))


def _bar(share: float) -> Markup:
    """Return a small bar, which only repeats the number beside it."""
    wide = 60 * min(max(share, 0.0), 1.0)
    attrs = {"class": "bar", "width": "60", "height": "8", "aria-hidden": "true"}
    attrs |= {"viewBox": "0 0 60 8", "preserveAspectRatio": "none"}
    box: Attrs = {"width": wide, "height": "8", "rx": "2"}
    return element("svg", attrs, element("rect", box))


def _table(table: Table) -> Markup:
    is_long = len(table.rows) > LONG
    head = element("tr", None, *(_head(column) for column in table.columns))
    rows = [
        element("tr", None, *(_cell(*each) for each in zip(row, table.columns, strict=True)))
        for row in table.rows
    ]
    caption = element("caption", None, table.caption)
    whole = element(
        "table",
        {"class": "long" if is_long else None},
        caption,
        element("thead", None, head),
        element("tbody", None, *rows),
    )
    kind = "scroll tall" if is_long else "scroll"
    attrs = {"class": kind, "tabindex": "0", "role": "region", "aria-label": table.caption}
    box = element("div", attrs, whole)
    remark = [element("p", {"class": "remark"}, table.remark)] if table.remark else []
    if not table.is_folded:
        return joined([box, *remark])
    return element(
        "details", None, element("summary", None, f"Table: {table.caption}"), box, *remark
    )


def _head(column: Column) -> Markup:
    attrs: Attrs = {"scope": "col", "class": "n" if column.is_number else None}
    return element("th", attrs, clean(column.title))


def _cell(cell: Cell, column: Column) -> Markup:
    kinds = ["n"] * column.is_number
    if cell.subset is not None:
        kinds += ["mark", hue(cell.subset)]
    if cell.shade is not None:
        kinds.append(f"q{round(9 * min(max(cell.shade, 0.0), 1.0))}")
    words: str = clean(cell.text)
    if cell.feature is not None:
        words = element("bdi", None, words)
    bar = [_bar(cell.share)] if cell.share is not None else []
    attrs: Attrs = {
        "class": " ".join(kinds) or None,
        "data-f": None if cell.feature is None else str(cell.feature),
        "data-o": None if cell.order is None else f"{cell.order:.12g}",
    }
    return element("td", attrs, *bar, escaped(words))
