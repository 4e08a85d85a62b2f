"""``hofs-dask compile``: fill the kernel cache ahead of time."""

from __future__ import annotations

import sys
import time

import click

from hofs_dask.cli.options import debug_option, examples


@click.command(name="compile", epilog=examples("compile"))
@debug_option
def compile_() -> None:
    """Compile all numerical kernels before the first run.

    Without this command, each kernel is compiled when it is first needed. Use the command when you
    build a container image, or on a login node before you submit jobs.

    Kernels are compiled once per user and type of machine. They are saved in the user's cache
    directory, or in the directory that the environment variable HOFS_DASK_CACHE_DIR names. Kernels
    that are already saved are not compiled again.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from dask.system import CPU_COUNT

    from hofs_dask.kernels._jit import all_kernels, missing
    from hofs_dask.kernels.cache import (
        VARIABLE,
        UnsafeDirectoryError,
        default_directory,
        usable_directory,
    )

    directory = default_directory()
    if directory is None:
        raise click.ClickException(
            f"there is no cache directory: {VARIABLE} is empty. Unset it, or set it to a directory"
        )
    try:
        usable_directory(directory)
    except UnsafeDirectoryError as error:
        raise click.ClickException(f"{directory} is not used: {error}") from error
    kernels = all_kernels()
    wanted = [position for position, kernel in enumerate(kernels) if missing([kernel])]
    start = time.perf_counter()
    if wanted:
        # A process can compile only one kernel at a time, because its compiler has one lock.
        with ProcessPoolExecutor(min(CPU_COUNT, len(wanted)), get_context("spawn")) as pool:
            done = pool.map(_compile, wanted)
            bar = click.progressbar(done, len(wanted), "compiling", file=sys.stderr)
            with bar as each_done:
                list(each_done)
    left = missing(kernels)
    if left:
        raise click.ClickException(f"{len(left)} kernels could not be written to {directory}")
    seconds = f" in {time.perf_counter() - start:.0f} s" if wanted else ""
    click.echo(f"{len(kernels)} kernels in {directory}, {len(wanted)} compiled{seconds}")


def _compile(position: int) -> None:
    from hofs_dask.kernels._jit import all_kernels, compile_kernels

    compile_kernels([all_kernels()[position]])
