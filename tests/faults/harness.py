"""Running of cases: a run, faults at random moments, a second attempt, and the judgement."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tests.faults.cluster import Cluster
from tests.faults.drivers import HANG, Driver, to_end
from tests.faults.kinds import KINDS, Scene
from tests.faults.records import Case, Injection, Outcome, Report, Round
from tests.faults.runs import RUNS, Run, Site
from tests.fuzz.records import Answer

#: Seconds after which an attempt is a hang.
LIMIT = 300.0
#: Shares of cases with one, two, three and four faults.
SHARES = (0.2, 0.2, 0.3, 0.3)
#: Seconds without progress after which a run ends with an error: less or more than it takes the
#: scheduler to give up a machine that does not answer.
PATIENCES = (30.0, 90.0)
#: What the message of an error must say: to remove the lock of a killed driver, or to call again.
LOCKED = re.compile(r"hofs-dask unlock (\S+)\)")
#: What the message of an error says if the storage failed until the end of the call.
LEFT = re.compile(r"the lock of \S+ could not be removed")
REMEDY = re.compile(r"run the same (call|command)")


@dataclass(frozen=True)
class Undisturbed:
    """What a run does on the cluster without faults."""

    answer: Answer
    n_events: int
    seconds: float


@dataclass
class Harness:
    """Runs cases one after another on one cluster.

    Attributes
    ----------
    cluster : Cluster
        The cluster.
    data : Path
        Folder of the source and the code store.
    kinds : tuple of str
        Kinds of faults to inject.
    known : dict of str to Undisturbed
        What the runs do without faults, by name.
    """

    cluster: Cluster
    data: Path
    kinds: tuple[str, ...]
    known: dict[str, Undisturbed] = field(default_factory=dict)

    def runs(self) -> list[Run]:
        """Return the runs that the kinds of faults can act on."""
        local = any(not KINDS[kind].remote for kind in self.kinds)
        remote = any(KINDS[kind].remote for kind in self.kinds)
        return [run for run in RUNS.values() if (remote if run.remote else local)]

    def undisturbed(self, run: Run) -> Undisturbed:
        """Return what a run does without faults, after a comparison of cluster and threads."""
        if run.name not in self.known:
            answers, report = [], None
            for number, address in enumerate((None, self.cluster.address)):
                with self._site(f"{run.name}-{number}") as site:
                    driver = Driver(run, site, address, self.cluster.namespace, LIMIT / 2)
                    report = to_end(driver, LIMIT)
                if report.answer is None:
                    raise RuntimeError(f"{run.name} without faults: {report}")
                answers.append(report.answer)
            assert report is not None
            if answers[0] != answers[1]:
                raise RuntimeError(f"{run.name}: other results on the cluster than on threads")
            self.known[run.name] = Undisturbed(answers[1], report.n_events, report.seconds)
        return self.known[run.name]

    def plan(self, case: Case) -> tuple[Run, list[Injection], np.random.Generator]:
        """Return the run of a case and its faults in the order of their moments."""
        rng = case.rng()
        kind = self.kinds[case.number % len(self.kinds)]  # every kind is injected equally often
        runs = [run for run in self.runs() if run.remote or not KINDS[kind].remote]
        run = runs[rng.integers(len(runs))]
        allowed = [each for each in self.kinds if run.remote or not KINDS[each].remote]
        n_more = int(rng.choice(len(SHARES), p=SHARES))
        kinds = [kind, *(allowed[rng.integers(len(allowed))] for _ in range(n_more))]
        # not before the driver has a client, which is the first event: this would test Dask alone
        last = 0.9 * self.undisturbed(run).n_events
        moments = [(int(rng.integers(1, last)), float(rng.uniform(0, 0.1))) for _ in kinds]
        found = [Injection(each, *when) for each, when in zip(kinds, moments, strict=True)]
        return run, sorted(found, key=lambda each: each.after), rng

    def run(self, case: Case) -> Outcome:
        """Run one case: repeat the call until it returns, with the faults that are left."""
        start = time.monotonic()
        run, waiting, rng = self.plan(case)
        injected: list[tuple[str, str]] = []
        saved: set[Round] = set()
        errors: list[str] = []
        with self._site(f"case-{case.number}") as site:
            verdict = None
            while verdict is None:
                n_before = len(injected)
                report = self._disturbed(run, site, waiting, rng, injected)
                kinds = {kind for kind, _ in injected[n_before:]}
                verdict = self._judge(run, report, kinds, saved, errors)
                self._repair(kinds)
                saved.update(report.ended)
                waiting = _sooner(waiting, report.n_events, rng)
        kind, log = verdict
        seconds = time.monotonic() - start
        return Outcome(case, run.name, kind, tuple(injected), " | ".join(errors), seconds, log)

    def _disturbed(
        self,
        run: Run,
        site: Site,
        waiting: list[Injection],
        rng: np.random.Generator,
        injected: list[tuple[str, str]],
    ) -> Report:
        """Return the report of a run; faults are moved from ``waiting`` to ``injected``."""
        patience = float(rng.choice(PATIENCES, p=(0.8, 0.2))) if waiting else LIMIT / 2
        driver = Driver(run, site, self.cluster.address, self.cluster.namespace, patience)
        scene = Scene(self.cluster, driver, rng)
        since: dict[int, float] = {}

        def inject() -> None:
            while waiting and driver.report.n_events >= waiting[0].after:
                now = time.monotonic()
                if now - since.setdefault(len(waiting), now) < waiting[0].delay:
                    return
                kind = waiting.pop(0).kind
                description = KINDS[kind].inject(scene)
                if description:
                    injected.append((kind, description))

        report = to_end(driver, LIMIT, (inject, scene.act))
        for _, action in scene.later:
            action()
        return report

    def _repair(self, kinds: set[str]) -> None:
        """Undo faults that last."""
        self.cluster.storage()
        mends = {KINDS[kind].mends for kind in kinds}
        if "cluster" in mends:
            self.cluster.restart()
        elif "workers" in mends:
            self.cluster.replace_workers()
        self.cluster.heal()

    def _judge(
        self,
        run: Run,
        report: Report,
        kinds: set[str],
        saved: set[Round],
        errors: list[str],
    ) -> tuple[str, str] | None:
        """Return the outcome and a traceback, or None if the call must be repeated.

        Parameters
        ----------
        run, report
            The run, and what it did in this attempt.
        kinds
            The faults of this attempt.
        saved
            Rounds that ended in earlier attempts.
        errors
            The errors of all attempts; that of this one is added.
        """
        if report.crash == HANG:
            return "hang", report.log
        repeated = sorted(map(str, saved & {*report.started}))
        if repeated and "storage: stale" not in kinds:
            errors.append(f"{', '.join(repeated)} again")
            return "lost round", ""
        if report.answer is not None:
            if report.answer != self.undisturbed(run).answer:
                errors.append("other features, subsets or scores")
                return "wrong result", ""
            return ("resumed" if errors else "same"), ""
        error = report.error or report.crash
        errors.append(error)
        stopped = report.crash or error.startswith("KeyboardInterrupt")
        if "driver ends" in kinds and stopped:
            return None
        locked = LOCKED.search(error)
        left = any(each.startswith("SIG") or LEFT.search(each) for each in errors)
        if locked and left and not LEFT.search(error):
            self.cluster.unlock(locked[1])  # as the message says: an earlier driver has ended
            return None
        if not kinds:
            return "error without a fault", report.log
        return None if REMEDY.search(error) else ("error without a remedy", report.log)

    @contextlib.contextmanager
    def _site(self, name: str) -> Iterator[Site]:
        own = self.cluster.disk / name
        reports = self.cluster.folder / f"reports-{name}"
        for folder in (own, reports):
            folder.mkdir()
        try:
            yield Site(self.data, own, f"s3://bucket/{name}", self.cluster.options, reports)
        finally:
            for folder in (own, reports):
                shutil.rmtree(folder, ignore_errors=True)
            for folder in self.cluster.disk.glob("driver-*"):
                shutil.rmtree(folder, ignore_errors=True)


def _sooner(waiting: list[Injection], n_events: int, rng: np.random.Generator) -> list[Injection]:
    """Return faults for a resumed run, which has fewer events than the interrupted one."""
    moved = [
        replace(each, after=int(rng.integers(1, max(2, each.after - n_events // 2))))
        for each in waiting
    ]
    return sorted(moved, key=lambda each: each.after)
