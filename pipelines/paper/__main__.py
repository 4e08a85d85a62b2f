"""Reproduce the tables and figures of the paper: ``python -m pipelines.paper``.

Finished parts are stored in a folder, so that an interrupted run resumes and a second run takes
seconds. They are computed again when the data, the protocol or the package has changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from hofs_dask.methods.registry import as_method
from pipelines.paper import models, page, protocol
from pipelines.paper.data import FOLDER, GROUPED, OPENML, SETS, load
from pipelines.paper.runs import (
    Job,
    fingerprint_of_package,
    judge_all,
    model_of,
    quality_all,
    workers,
)

HERE = Path(__file__).parent
SECTIONS = ("errors", "information", "arae", "quality", "tree", "heterogeneous")
PACKAGES = ("hofs-dask", "scikit-learn", "scipy", "numpy")


def listed(_context: object, _option: object, value: str | None) -> tuple[str, ...] | None:
    """Return the words of an option, separated by commas or spaces."""
    return None if value is None else tuple(value.replace(",", " ").split())


@click.command()
@click.option(
    "--data",
    default=str(FOLDER),
    show_default="shared/data beside the checkout",
    help=f"A folder of .npz files, or '{OPENML}' to fetch them through scikit-learn.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=HERE,
    show_default="pipelines/paper",
    help="Folder of PAGE.md and its figures.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default="hofs-paper",
    show_default=True,
    help="Folder of results that are reused by the next run; removing it is safe.",
)
@click.option(
    "--only", type=click.Choice(SECTIONS), multiple=True, help="A section. Can be repeated."
)
@click.option(
    "--sets",
    callback=listed,
    help="Data sets, such as 'lung,musk2-grouped'. Default: the nine and musk2-grouped. Any "
    "<name>.npz of the folder will do.",
)
@click.option(
    "--methods",
    callback=listed,
    help="Methods, such as 'hofs,jmi'. Default: the eight and the two older criteria.",
)
@click.option(
    "--older-in-folds",
    is_flag=True,
    help="Also run the two older criteria inside the folds, which takes longer than the rest.",
)
@click.option(
    "--workers",
    "n_workers",
    default=2,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of single-thread worker processes; 0 for this process.",
)
def main(
    data: str,
    output: Path,
    cache: Path,
    only: tuple[str, ...],
    sets: tuple[str, ...] | None,
    methods: tuple[str, ...] | None,
    older_in_folds: bool,
    n_workers: int,
) -> None:
    """Reproduce every table and figure of the paper, and write PAGE.md."""
    wanted = [section for section in SECTIONS if section in (only or SECTIONS)]
    grouped = () if data == OPENML else (f"musk2{GROUPED}",)
    names = sets or (*SETS, *grouped)
    chosen, older = protocol.RANKED, protocol.SHOWN
    try:
        if methods is not None:
            chosen, older = tuple(as_method(name) for name in methods), ()
        for name in names:
            load(name, data)
    except (FileNotFoundError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if older_in_folds:
        chosen, older = (*chosen, *protocol.SHOWN), ()
    job = Job(data, str(cache.resolve()), chosen, older, fingerprint_of_package())
    packages = {package: version(package) for package in PACKAGES}
    whole = not (only or sets or methods)
    parts = [page.head(datetime.now(UTC).date().isoformat(), packages, whole=whole)]
    figures = output / "figures"
    with workers(n_workers) as client:
        judged = {"errors", "information", "arae"}.intersection(wanted)
        outcomes = judge_all(client, job, names) if judged else []
        if "errors" in wanted:
            parts.append(page.errors_section(outcomes, figures))
        if "information" in wanted:
            parts.append(page.information_section(outcomes))
        if "arae" in wanted:
            parts.append(page.arae_section(outcomes))
        if "quality" in wanted:
            plain = [name for name in names if not name.endswith(GROUPED)]
            parts.append(page.quality_section(quality_all(client, job, plain)))
        if "tree" in wanted:
            parts.append(page.tree_section(model_of(client, job, models.tree), figures))
        if "heterogeneous" in wanted:
            found = model_of(client, job, models.heterogeneous)
            parts.append(page.heterogeneous_section(found, figures))
    output.mkdir(parents=True, exist_ok=True)
    path = output / "PAGE.md"
    path.write_text("\n\n".join(page.wrapped(part) for part in parts) + "\n")
    click.echo(f"wrote {path}")


if __name__ == "__main__":
    main()
