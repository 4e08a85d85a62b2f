"""The command group ``hofs-dask``."""

from __future__ import annotations

import click

from hofs_dask.cli.compare import compare
from hofs_dask.cli.compile import compile_
from hofs_dask.cli.demo import demo
from hofs_dask.cli.encode import encode
from hofs_dask.cli.info import info
from hofs_dask.cli.interactions import interactions
from hofs_dask.cli.job_script import job_script
from hofs_dask.cli.matrix import matrix
from hofs_dask.cli.options import examples
from hofs_dask.cli.report import report
from hofs_dask.cli.running import Commands
from hofs_dask.cli.select import select
from hofs_dask.cli.unlock import unlock


@click.group(
    cls=Commands,
    epilog=examples(
        "encode data.zarr codes.zarr --target y",
        "select codes.zarr --n-features 30 --checkpoint run --output result.zarr",
        "compare codes.zarr --n-features 30 --method hofs,jmi,mrmr --plot compare.png",
        "info result.zarr",
        "report result.zarr",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hofs-dask", prog_name="hofs-dask")
def main() -> None:
    """Select the features with the most information about a target.

    The selected features are ranked and grouped into subsets: features that depend on each other
    share a subset. The data may be larger than memory.

    Data is first encoded into a code store, in which every value is a small integer. Once encoded,
    data can be used for any number of selections.

    Results are printed to standard output. Progress, warnings and errors are printed to standard
    error. The exit code is 0 after success, 1 after an error, 2 if the command line is not valid,
    130 after Ctrl-C and 143 after SIGTERM.
    """


COMMANDS = (
    encode,
    select,
    compare,
    interactions,
    matrix,
    info,
    report,
    unlock,
    compile_,
    job_script,
    demo,
)
for command in COMMANDS:
    main.add_command(command)
