"""Content of the checkpoints of selections and comparisons, and how to resume."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from hofs_dask.cli.options import options_for

if TYPE_CHECKING:
    from hofs_dask.io.places import Place

#: Name of the directory of one search: the label of its method and the index of the resample.
PART = re.compile(r"(?P<label>.+?)(?: (?P<resample>\d+))?")


def parts_of(checkpoint: str) -> dict[str, dict[int | None, Place]]:
    """Return the places of a comparison's checkpoint by label and resample.

    The result is empty if the path is not the checkpoint of a comparison.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("jmi", "jmi 0", "other"):
    ...         (Path(folder) / name).mkdir()
    ...     for name in ("jmi", "jmi 0"):
    ...         (Path(folder) / name / "checkpoint.npz").touch()
    ...     {label: list(found) for label, found in parts_of(folder).items()}
    {'jmi': [None, 0]}
    """
    from hofs_dask.io.places import LOCK, as_place
    from hofs_dask.search.checkpoint import FILE

    folder = as_place(checkpoint, options_for(checkpoint))
    names = folder.children()
    parts: dict[str, dict[int | None, Place]] = {}
    if FILE in names:
        return parts
    is_started = False
    for name in names:
        found = PART.fullmatch(name)
        held = (folder / name).children()
        # a search that was interrupted in its first round has only a lock
        if found and held & {FILE, LOCK}:
            number = None if found["resample"] is None else int(found["resample"])
            parts.setdefault(found["label"], {})[number] = folder / name
            is_started |= FILE in held
    if not is_started:
        return {}

    return {
        label: dict(sorted(parts[label].items(), key=lambda part: (part[0] is not None, part[0])))
        for label in sorted(parts, key=_place)
    }


def _place(label: str) -> tuple[int, str]:
    """Return the sort key of a label: the position of its method in the registry, and the label."""
    from hofs_dask.methods.registry import METHOD_NAMES

    name = label.partition("(")[0]
    return METHOD_NAMES.index(name) if name in METHOD_NAMES else len(METHOD_NAMES), label


def rounds_in(checkpoint: str | Place) -> int:
    """Return the number of rounds in the checkpoint of one search.

    Examples
    --------
    >>> rounds_in("no/such/checkpoint")
    0
    """
    from hofs_dask.io.places import as_place
    from hofs_dask.search.checkpoint import has_checkpoint, read_checkpoint

    place = as_place(checkpoint, options_for(checkpoint))
    return len(read_checkpoint(place)[1].picks) if has_checkpoint(place) else 0


def rounds_in_parts(
    checkpoint: str, labels: Collection[str], n_features: int | str, n_runs: int
) -> int:
    """Return how many rounds in the checkpoint of a comparison the run can use."""
    return sum(
        min(rounds_in(path), n_features) if isinstance(n_features, int) else rounds_in(path)
        for label, found in parts_of(checkpoint).items()
        for number, path in found.items()
        if label in labels and (number is None or number < n_runs - 1)
    )


def how_to_resume(done: int, n_rounds: int | None, checkpoint: str | None) -> str:
    """Return the message for an interrupted run: how many rounds are saved, and how to resume.

    Examples
    --------
    >>> how_to_resume(2, 5, "run")
    '2 of 5 rounds are saved in run; run the same command again to resume.'
    >>> how_to_resume(2, None, "run")
    '2 rounds are saved in run; run the same command again to resume.'
    """
    rounds = f"{done} rounds" if n_rounds is None else f"{done} of {n_rounds} rounds"
    if checkpoint is not None:
        return f"{rounds} are saved in {checkpoint}; run the same command again to resume."
    lost = f"{rounds} were done and are lost; " if done else ""
    return f"{lost}with --checkpoint DIR the same command resumes where it was interrupted."
