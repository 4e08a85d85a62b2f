"""``hofs-dask unlock``: remove the lock that a killed process left on remote storage."""

from __future__ import annotations

import click

from hofs_dask.cli.options import examples


@click.command(epilog=examples("unlock s3://bucket/codes.zarr"))
@click.argument("store")
def unlock(store: str) -> None:
    """Remove a stale lock from a remote code store.

    STORE is the URL of the code store. A process locks a code store while it writes to it. On
    remote storage, the lock stays behind if the process is killed. Other processes that try to
    write then end with an error that names the killed process and this command. Make sure that the
    named process has ended before you remove its lock.

    Local code stores do not need this command, because the operating system releases their locks.
    """
    from hofs_dask.io import places
    from hofs_dask.io.paths import as_path
    from hofs_dask.store.codes import store_version

    path = as_path(store)
    if store_version(path) is None and places.children(path) != {places.LOCK}:
        raise ValueError(f"there is no code store at {path!r}; nothing was changed")
    holder = places.unlock(path)
    click.echo(f"{path} is not locked" if holder is None else f"Removed the lock of {holder}")
