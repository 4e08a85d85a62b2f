"""Running of cases: copy an artefact, damage it, use it in a child, classify the outcome."""

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

#: Share of forgeries among the cases of subjects that have forgeries.
FORGED = 0.3
#: Allowed memory in bytes beyond twice that of an undamaged artefact.
SLACK = 32 * 2**20
#: Time limit in seconds of other means of reading.
ORACLE_LIMIT = 5.0


@dataclass(frozen=True)
class Honest:
    """Result and memory of the use of an undamaged subject."""

    answer: Answer
    growth: int


@dataclass
class Fuzzer:
    """Runs cases one after another on copies of undamaged artefacts.

    Attributes
    ----------
    folder : Path
        Folder of all files.
    subjects : sequence of Subject
        Subjects of the cases.
    time_limit : float
        Time limit of a case in seconds.
    honest : dict of Subject to Honest
        Results of the undamaged subjects.
    """

    folder: Path
    subjects: Sequence[Subject]
    time_limit: float = 20.0
    honest: dict[Subject, Honest] = field(default_factory=dict)

    def warm_up(self) -> None:
        """Write and use the artefacts, so that everything is imported and compiled."""
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
        """Run one case; the variants of a subject alternate."""
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
        """Return the kind of outcome and a description."""
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
        """Yield a copy of the artefact of a subject, in a folder with another folder beside it."""
        case = self.folder / "case"
        try:
            shutil.copytree(self._template(subject), case / "place", symlinks=True)
            (case / "outside").mkdir()
            (case / "outside" / "thesis.txt").write_text("draft")
            yield case / "place"
        finally:
            shutil.rmtree(case)


def damaged(site: Site, subject: Subject) -> tuple[tuple[str, ...], bool]:
    """Damage an artefact in one to three ways; return descriptions and whether it is a forgery."""
    forgeries = FORGERIES.get(subject.name, {})
    forged = bool(forgeries) and site.rng.random() < FORGED
    n_mutations = 1 + int(site.rng.choice(3, p=[0.7, 0.2, 0.1]))
    # forgeries first, because a damaged artefact cannot be opened
    done = _applied(site, forgeries, 1) if forged else []
    done += _applied(site, MUTATIONS, n_mutations - len(done))
    return tuple(done), forged


def _applied(site: Site, mutations: dict[str, Mutation], most: int) -> list[str]:
    """Apply this number of mutations, or fewer if the artefact was deleted."""
    done: list[str] = []
    for name in site.rng.permutation(sorted(mutations)).tolist():
        if len(done) == most:
            break
        with contextlib.suppress(LookupError):
            done.append(f"{name}: {mutations[name](site)}")
    return done


def _is_refusal(subject: Subject, report: Report, place: Path) -> bool:
    """Return whether the package raised an error on purpose and it names the damaged artefact."""
    words = [str(place / subject.artefact)]
    if subject.oracle is not None:
        words += ["feature", "target"]
    return report.is_ours and any(word in report.error for word in words)


@contextlib.contextmanager
def _no_threads_left() -> Iterator[None]:
    """End threads, which do not survive a fork, and empty the cache of chunks."""
    yield
    PROCESS.reset()
    zarr.core.sync.cleanup_resources()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(10)
    gc.collect()
    gc.freeze()
