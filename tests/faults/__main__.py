"""Inject faults and print the outcomes: ``python -m tests.faults --minutes 30 --seed 0``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.faults.cluster import cluster
from tests.faults.harness import Harness
from tests.faults.kinds import KINDS
from tests.faults.records import Case, Outcome
from tests.fuzz.__main__ import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 1 if an outcome is bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="time for cases")
    parser.add_argument("--cases", type=int, default=10**6, help="most cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="CASE", help="one case")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these faults")
    given = parser.parse_args(arguments)
    root = os.geteuid() == 0
    usable = [name for name, kind in KINDS.items() if root or not kind.separate]
    kinds = tuple(name for name in usable if name in (given.kind or usable))
    separate = any(KINDS[name].separate for name in kinds)
    storage = any(KINDS[name].remote for name in kinds)
    outcomes = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # namespaces and disk are removed
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as folder,
        _data_in(Path(folder, "data")) as data,
        cluster(Path(folder).resolve(), separate=separate, storage=storage) as made,
    ):
        harness = Harness(made, data, kinds)
        for case in _cases(given):
            outcome = harness.run(case)
            outcomes.append(outcome)
            print(outcome, flush=True)
    seconds = {name: round(each.seconds, 1) for name, each in harness.known.items()}
    print(f"\nseconds of the undisturbed runs: {seconds}\n\n{summary(outcomes)}")
    return int(any(outcome.is_bad for outcome in outcomes))


@contextmanager
def _data_in(folder: Path) -> Iterator[Path]:
    """Write the data of all runs, and compile the kernels before there are workers."""
    folder.mkdir()
    # in another process, since it starts threads, which do not survive the fork of a driver
    subprocess.run([sys.executable, "-m", "tests.faults.runs", folder], check=True)
    yield folder


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    if given.only is not None:
        yield Case(given.seed, given.only)
        return
    end = time.monotonic() + 60 * given.minutes
    for number in range(given.cases):
        if time.monotonic() > end:
            return
        yield Case(given.seed, number)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers of injections by kind and outcome, and of cases by run and outcome."""
    by_kind = Counter((kind, each.kind) for each in outcomes for kind, _ in each.injected)
    by_run = Counter((each.run, each.kind) for each in outcomes)
    return f"{table('injections', by_kind)}\n\n{table('cases', by_run)}"


if __name__ == "__main__":
    sys.exit(main())
