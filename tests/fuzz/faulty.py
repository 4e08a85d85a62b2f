"""Functions with known faults, to test the fuzzer: ``python -m tests.fuzz.faulty``."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hofs_dask.io.files import read_file
from tests.fuzz.fuzzer import SLACK, Fuzzer
from tests.fuzz.records import Answer, Case, Subject

FILE, HONEST = "artefact.json", b'{"a": 1}'


#: Faulty functions of a damaged file, by the expected outcome.
FAULTS: dict[str, Callable[[Path], Any]] = {
    "crash": lambda _: os.abort(),
    "hang": lambda _: time.sleep(60),
    "raw error": lambda folder: int(str(folder / FILE)),  # not raised by the package
    "memory": lambda _: bytearray(2 * SLACK).count(0),
    "outside": lambda folder: (folder.parent / "outside" / "thesis.txt").write_text("lost"),
    "code ran": lambda folder: (folder.parent / "marker").touch(),
    "wrong answer": lambda _: None,
    "refused": lambda folder: read_file(folder / FILE, 0),
}


def make(folder: Path) -> None:
    (folder / FILE).write_bytes(HONEST)


def use(fault: Callable[[Path], Any]) -> Callable[[Path], Answer]:
    def read(folder: Path) -> Answer:
        file = folder / FILE
        if file.is_file() and file.stat().st_size < 100 and file.read_bytes() == HONEST:
            return {"a": 1}
        fault(folder)
        return {"a": 2}

    return read


def main() -> dict[str, str]:
    """Return the outcome that the fuzzer reports for each fault."""
    subjects = [Subject(name, "", FILE, make, use(fault)) for name, fault in FAULTS.items()]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Path(folder).resolve(), subjects, time_limit=1.0)
        fuzzer.warm_up()
        for subject in subjects:
            kinds = (fuzzer.run(Case(0, subject.name, number)).kind for number in range(100))
            found[subject.name] = next(kind for kind in kinds if kind != "same")
    return found


if __name__ == "__main__":
    print(json.dumps(main()))
