"""Write the page of a report to a file."""

from __future__ import annotations

import os
from pathlib import Path

from hofs_dask.io.files import write_file
from hofs_dask.results.report.content import Report
from hofs_dask.results.report.page import render_page

#: Allowed ends of the path.
SUFFIXES = (".html", ".htm")
#: What every report has near its start, by which an earlier report is recognised.
MARK = b'<meta name="generator" content="hofs_dask report">'
SEARCHED = 4096


def write_page(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as one HTML file, in one step; missing folders are created.

    Raises
    ------
    ValueError
        The path does not end with .html or .htm.
    FileExistsError
        There is another file at this path, or a folder.

    Examples
    --------
    >>> write_page(Report("selection", "", (), (), ()), "report.pdf")
    Traceback (most recent call last):
    ...
    ValueError: 'report.pdf' does not end with .html; give a path such as 'report.html'
    """
    given = page_path(path)
    check_page(given)
    page = render_page(report).encode("utf-8")
    given.parent.mkdir(parents=True, exist_ok=True)
    write_file(given, [page], private=True)


def page_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page; raise an error if it does not end with .html or .htm."""
    given = Path(path).expanduser()
    if given.suffix.lower() not in SUFFIXES:
        better = given.with_suffix(".html").name if given.name else "report.html"
        raise ValueError(
            f"{os.fspath(path)!r} does not end with .html; give a path such as {better!r}"
        )
    return given


def check_page(path: Path) -> None:
    """Raise an error if there is something at a path that is not an earlier report."""
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder; give the path of a file")
    if not path.exists():
        return
    with path.open("rb") as file:
        if MARK not in file.read(SEARCHED):
            raise FileExistsError(
                f"{path} exists and is not a report of hofs_dask: give another path, or remove it"
            )
