"""``hofs-dask unlock``: remove the lock that a killed process left on remote storage."""

from __future__ import annotations

import click

from hofs_dask.cli.options import debug_option, examples, options_for, storage_option


@click.command(epilog=examples("unlock s3://bucket/codes.zarr"))
@click.argument("store")
@storage_option
@debug_option
def unlock(store: str) -> None:
    """Remove a stale lock from a remote code store or checkpoint.

    STORE is the URL of the code store or checkpoint. A process locks a code store while it writes
    to it, and a checkpoint during the whole run. On remote storage, the lock stays behind if the
    process is killed. Other processes that try to write then end with an error that names the
    killed process and this command. Make sure that the named process has ended before you remove
    its lock.

    Local code stores and checkpoints do not need this command, because the operating system
    releases their locks.
    """
    from hofs_dask.io.places import LOCK, as_place
    from hofs_dask.search.checkpoint import FILE
    from hofs_dask.store.codes import store_version

    place = as_place(store, options_for(store))
    names = place.children()
    if store_version(place) is None and FILE not in names and names != {LOCK}:
        raise ValueError(
            f"there is no code store or checkpoint at {place.path!r}; nothing was changed"
        )
    holder = place.unlock()
    click.echo(f"{place.path} is not locked" if holder is None else f"Removed the lock of {holder}")
