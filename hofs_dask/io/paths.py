"""Local paths and URLs of remote storage, as text."""

from __future__ import annotations

import os
from pathlib import Path


def as_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that is valid on workers: local paths are absolute, without scheme.

    A leading ``~`` is expanded to the home directory of the user on this machine.

    Examples
    --------
    >>> as_path("file:///data/x.zarr"), as_path("s3://bucket/x.zarr")
    ('/data/x.zarr', 's3://bucket/x.zarr')
    """
    text = os.fspath(path).removeprefix("file://").removeprefix("local://")
    if is_url(text):
        return text
    local = Path(text)
    # Only "~" itself is expanded: ~old.zarr is the name of a file.
    return str((local.expanduser() if local.parts[:1] == ("~",) else local).absolute())


def is_url(path: str) -> bool:
    """Return whether a path is a URL of remote storage.

    Examples
    --------
    >>> is_url("s3://bucket/data.zarr"), is_url("data.zarr")
    (True, False)
    """
    return "://" in path
