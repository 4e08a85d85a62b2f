"""``hofs-dask unlock``: remove the lock that a killed process left on remote storage."""

from __future__ import annotations

import click

from hofs_dask.cli.options import examples


@click.command(epilog=examples("unlock s3://bucket/codes.zarr"))
@click.argument("store")
def unlock(store: str) -> None:
    """Remove the lock of the remote code store STORE.

    A process that is killed while it writes a code store to remote storage leaves its lock, and
    the next process is refused. Make sure that the process named in that error has ended before
    you remove its lock. Local stores do not need this: their locks end with the process.
    """
    from hofs_dask.io import places
    from hofs_dask.io.paths import as_path
    from hofs_dask.store.codes import store_version

    path = as_path(store)
    if store_version(path) is None and places.children(path) != {places.LOCK}:
        raise ValueError(f"there is no code store at {path!r}; nothing was changed")
    holder = places.unlock(path)
    click.echo(f"{path} is not locked" if holder is None else f"Removed the lock of {holder}")
