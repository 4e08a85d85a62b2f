"""Run cases and print their outcomes: ``python -m tests.fuzz --cases 2000 --seed 0``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import dask

from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.records import Case, Outcome
from tests.fuzz.subjects import NAMES, SUBJECTS, compile_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 1 if an outcome is bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=240, help="number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subject", choices=NAMES, help="only cases of this subject")
    parser.add_argument("--only", metavar="CASE", help="one case, such as codes-17")
    given = parser.parse_args(arguments)
    cases = list(_cases(given))
    dask.config.set(scheduler="synchronous")
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        names = {case.subject for case in cases}
        chosen = [subject for subject in SUBJECTS if subject.name in names]
        fuzzer = Fuzzer(Path(folder).resolve(), chosen)
        compile_all()
        fuzzer.warm_up()
        for case in cases:
            outcome = fuzzer.run(case)
            outcomes.append(outcome)
            if outcome.is_bad or given.only:
                print(outcome, flush=True)
            if given.only:
                print(outcome.log)
    print(summary(outcomes))
    return int(any(outcome.is_bad for outcome in outcomes))


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    if given.only:
        subject, _, number = given.only.rpartition("-")
        yield Case(given.seed, subject, int(number))
        return
    names = [given.subject] if given.subject else NAMES
    for i in range(given.cases):
        yield Case(given.seed, names[i % len(names)], i // len(names))


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers of outcomes by subject and by mutation; a case may have several."""
    by_subject = Counter((each.subject.name, each.kind) for each in outcomes)
    by_mutation = Counter(
        (damage.partition(":")[0], each.kind) for each in outcomes for damage in each.damage
    )
    return f"{table('subject', by_subject)}\n\n{table('mutation', by_mutation)}"


def table(title: str, counts: Counter[tuple[str, str]]) -> str:
    """Return numbers by name and kind as text, with sums."""
    kinds = sorted({kind for _, kind in counts})
    rows = [[title, *kinds, "all"]]
    for name in sorted({name for name, _ in counts}):
        numbers = [counts[name, kind] for kind in kinds]
        rows.append([name, *(str(number or "") for number in numbers), str(sum(numbers))])
    totals = [sum(counts[name, kind] for name in {name for name, _ in counts}) for kind in kinds]
    rows.append(["all", *(str(number) for number in totals), str(sum(totals))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
