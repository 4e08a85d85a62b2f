"""Paths of this machine and addresses of remote storage, as text."""

from __future__ import annotations

import os
from pathlib import Path


def as_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that workers understand: a local one without scheme and absolute.

    A leading ``~`` is the home directory of this machine's user.

    Examples
    --------
    >>> as_path("file:///data/x.zarr"), as_path("s3://bucket/x.zarr")
    ('/data/x.zarr', 's3://bucket/x.zarr')
    """
    text = os.fspath(path).removeprefix("file://").removeprefix("local://")
    if is_url(text):
        return text
    local = Path(text)
    # A name such as ~old.zarr is a name.
    return str((local.expanduser() if local.parts[:1] == ("~",) else local).absolute())


def is_url(path: str) -> bool:
    """Return whether a path is an address of remote storage.

    Examples
    --------
    >>> is_url("s3://bucket/data.zarr"), is_url("data.zarr")
    (True, False)
    """
    return "://" in path
