"""``hofs-dask job-script``: print the script of a Slurm job."""

from __future__ import annotations

import click

from hofs_dask.cli.options import debug_option, examples
from hofs_dask.cli.targets import Slurm, read_target


@click.command("job-script", epilog=examples("job-script slurm:cluster.yaml"))
@click.argument("cluster", metavar="slurm:FILE")
@debug_option
def job_script(cluster: str) -> None:
    """Print the job script that --cluster slurm:FILE would submit.

    Nothing is submitted. Slurm does not have to be installed.
    """
    target = read_target(cluster)
    if not isinstance(target, Slurm):
        raise click.UsageError(f"{cluster} has no jobs: give slurm:FILE")
    click.echo(target.job_script(), nl=False)
