"""Cases: an artefact is copied, damaged and used in a child, and what became of it is judged."""

from __future__ import annotations

import contextlib
import gc
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zarr

from hofs_dask.scheduling.process import PROCESS
from tests.fuzz.children import run_in_child
from tests.fuzz.forgeries import FORGERIES
from tests.fuzz.mutations import MUTATIONS, Mutation
from tests.fuzz.records import Answer, Case, Outcome, Report, Subject
from tests.fuzz.site import Site, changes, state_of

#: The share of cases that forge, of subjects that can be forged.
FORGED = 0.3
#: Bytes by which memory may grow beyond twice of what it takes without damage.
SLACK = 32 * 2**20
#: Seconds that other means of reading may take.
ORACLE_LIMIT = 5.0


@dataclass(frozen=True)
class Honest:
    """What the use of a subject gives and takes without damage."""

    answer: Answer
    growth: int


@dataclass
class Fuzzer:
    """The honest artefacts, with which cases are run one after another.

    Attributes
    ----------
    folder : Path
        Of all files.
    subjects : sequence of Subject
        What cases may be of.
    time_limit : float
        Seconds that a case may take.
    honest : dict of Subject to Honest
        What each subject gives.
    """

    folder: Path
    subjects: Sequence[Subject]
    time_limit: float = 20.0
    honest: dict[Subject, Honest] = field(default_factory=dict)

    def warm_up(self) -> None:
        """Write the artefacts and use them, so that all is imported and compiled."""
        with _no_threads_left():
            for subject in self.subjects:
                template = self._template(subject)
                template.mkdir(parents=True)
                subject.make(template)
                with self._copied(subject) as place:
                    subject.use(place)
                if subject.oracle is not None:
                    subject.oracle(template)
        for subject in self.subjects:
            with self._copied(subject) as place:
                report = run_in_child(subject.use, place, self.time_limit)
            if report.answer is None:
                raise RuntimeError(f"{subject.name} without damage: {report}\n{report.log}")
            self.honest[subject] = Honest(report.answer, report.growth)

    def run(self, case: Case) -> Outcome:
        """Run one case: the variants of a subject take turns."""
        variants = [subject for subject in self.subjects if subject.name == case.subject]
        subject = variants[case.number % len(variants)]
        with self._copied(subject) as place:
            site = Site(place / subject.artefact, place.parent / "outside", case.rng())
            damage, forged = damaged(site, subject)
            lasting = (site.outside, self._template(subject))
            before = state_of(*lasting)
            report = run_in_child(subject.use, place, self.time_limit)
            changed = changes(before, state_of(*lasting))
            kind, details = "", ""
            if site.marker.exists():
                kind = "code ran"
            elif changed:
                kind, details = "outside", f"changed: {changed}"
            else:
                kind, details = self._judge(subject, report, place, forged)
        return Outcome(case, subject, kind, damage, details or report.error, report.log)

    def _judge(
        self, subject: Subject, report: Report, place: Path, forged: bool
    ) -> tuple[str, str]:
        """Return the kind of outcome, and what there is to say of it."""
        honest = self.honest[subject]
        if report.crash:
            return "hang" if report.crash.startswith("more") else "crash", report.crash
        most = 2 * honest.growth + SLACK
        if report.growth > most:
            grown = f"grew by {report.growth >> 20} MiB, {most >> 20} MiB are allowed"
            return "memory", f"{grown}; {report.error}"
        if report.answer is None:
            return ("refused" if _is_refusal(subject, report, place) else "raw error"), report.error
        if subject.oracle is not None:
            found = run_in_child(subject.oracle, place, ORACLE_LIMIT)
            if found.answer == report.answer:
                return ("same" if report.answer == honest.answer else "as zarr reads it"), ""
            theirs = found.crash or found.error or found.answer
            return "wrong answer", f"by zarr: {theirs}"
        if report.answer == honest.answer:
            return "same", ""
        differing = [
            name for name in honest.answer if honest.answer[name] != report.answer.get(name)
        ]
        return "accepted forgery" if forged else "wrong answer", f"other {differing}"

    def _template(self, subject: Subject) -> Path:
        return self.folder / "templates" / f"{subject.name} {subject.variant}"

    @contextlib.contextmanager
    def _copied(self, subject: Subject) -> Iterator[Path]:
        """Yield a copy of the artefact of a subject, in a folder beside which lies another."""
        case = self.folder / "case"
        try:
            shutil.copytree(self._template(subject), case / "place", symlinks=True)
            (case / "outside").mkdir()
            (case / "outside" / "thesis.txt").write_text("draft")
            yield case / "place"
        finally:
            shutil.rmtree(case)


def damaged(site: Site, subject: Subject) -> tuple[tuple[str, ...], bool]:
    """Damage an artefact in one to three ways; return which, and whether they forge."""
    forgeries = FORGERIES.get(subject.name, {})
    forged = bool(forgeries) and site.rng.random() < FORGED
    n_mutations = 1 + int(site.rng.choice(3, p=[0.7, 0.2, 0.1]))
    # forged first: what is damaged already cannot be opened to forge it
    done = _applied(site, forgeries, 1) if forged else []
    done += _applied(site, MUTATIONS, n_mutations - len(done))
    return tuple(done), forged


def _applied(site: Site, mutations: dict[str, Mutation], most: int) -> list[str]:
    """Apply so many mutations, or as many as apply: nothing can be done to what was deleted."""
    done: list[str] = []
    for name in site.rng.permutation(sorted(mutations)).tolist():
        if len(done) == most:
            break
        with contextlib.suppress(LookupError):
            done.append(f"{name}: {mutations[name](site)}")
    return done


def _is_refusal(subject: Subject, report: Report, place: Path) -> bool:
    """Return whether an error is ours and names what is damaged."""
    words = [str(place / subject.artefact)]
    if subject.oracle is not None:
        words += ["feature", "target"]
    return report.is_ours and any(word in report.error for word in words)


@contextlib.contextmanager
def _no_threads_left() -> Iterator[None]:
    """End what would not outlive a fork: threads, and chunks that need not be read again."""
    yield
    zarr.core.sync.cleanup_resources()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(10)
    PROCESS.chunks.clear()
    gc.collect()
    gc.freeze()
