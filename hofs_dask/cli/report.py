"""``hofs-dask report``: write a saved result as an HTML page."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import click

from hofs_dask.cli.options import debug_option, examples, exists, options_for, storage_option


def _check_output(_ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Return the path; raise an error if a report cannot be written to it."""
    from hofs_dask.results.report.write import check_page, page_path

    if path is None:
        return None
    if "://" in path:
        raise click.BadParameter(f"{path!r} is a URL; give a local path that ends with .html")
    try:
        check_page(page_path(path))
    except (OSError, ValueError) as error:
        raise click.BadParameter(str(error)) from error
    return path


@click.command(epilog=examples("report result.zarr", "report compared.nc --output report.html"))
@click.argument("result")
@click.option(
    "--output",
    callback=_check_output,
    metavar="PATH",
    help="Path of the page, which must end with .html. By default, the name of the result with the "
    "suffix .html, in the current directory. An earlier report is replaced.",
)
@storage_option
@debug_option
def report(result: str, output: str | None) -> None:
    """Write a report of a saved result as one HTML page.

    RESULT is a saved selection, a saved comparison or saved interactions.

    The page has figures, tables, and descriptions of the data and of how the result was made. It
    works offline: it loads nothing, and it can be sent to others as a single file. It contains the
    names of features and classes: check that they may be shared before you send it.
    """
    from hofs_dask.results.comparison import load

    if not exists(result):
        raise FileNotFoundError(f"no such path: {result!r}")
    path = output or default_path(result)
    load(result, storage_options=options_for(result)).to_html(path)
    click.echo(f"Wrote {Path(path)}")


def default_path(result: str) -> str:
    """Return the path of the report of a result: its name, in the current directory.

    Examples
    --------
    >>> default_path("s3://bucket/runs/result.zarr"), default_path("result/")
    ('result.html', 'result.html')
    """
    name = PurePosixPath(result.split("?")[0]).name
    return str(PurePosixPath(name or "result").with_suffix(".html"))
