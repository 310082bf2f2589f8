"""Fit the framework profile hadoop1 on half of the recorded traces, and judge the simulator on the other
half.

    python -m tests.bench.recorded_traces [--out docs/results/figures]

The recordings are Rumen traces of Gridmix and Mumak in ../shared/traces, or in the folder that
SCHEDBED_TRACES names. In the order of their names, the first, third and fifth are used to fit the profile,
the others to judge. Each number of the profile is a median over the attempts of the first half; no number is
tuned to reduce the errors of jobs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies import recorded_run
from schedbed.deploy.studies.recorded_run import RecordedAgreement, framework_for
from schedbed.scheduler.simulate.framework import HADOOP1
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.recording import read_recording
from tests.bench.figures import Figure, parser, publish, say

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces")).resolve()
NAMES = (
    "hadoop-gridmix/trace_1m.json.gz",
    "hadoop-gridmix/trace_3m.json.gz",
    "hadoop-gridmix/trace_5m.json.gz",
    "hadoop-gridmix/trace_7m.json.gz",
    "hadoop-gridmix/wordcount.json",
    "hadoop-mumak/19-jobs.trace.json.gz",
)
FITTED, JUDGED = NAMES[::2], NAMES[1::2]
FETCH_POLL_S = (
    1.0  # EventFetcher.SLEEP_TIME of Hadoop 0.21 and later; no recording tells the poll from the JVM's start
)
STALLED_S = 60.0
STALLS = "over a minute at a start, a shuffle or the set-up"
RETRIES = "by a last map or reduce that was tried more than once"
VARIANTS: Mapping[str, Any] = {
    "framework none": None,
    "hadoop1": {"recorded_shuffle": False},
    "hadoop1, shuffles as recorded": {"recorded_shuffle": True},
}


@dataclass(slots=True)
class Sample:
    """Delays of the framework in recorded attempts, in seconds, as lists for each number of a framework
    profile.
    """

    setup_s: list[float] = field(default_factory=list)
    cleanup_s: list[float] = field(default_factory=list)
    localize_s: list[float] = field(
        default_factory=list
    )  # launch to start, of a job's first attempt on a host
    start_s: list[float] = field(
        default_factory=list
    )  # start to the shuffle's end, of reduces after all maps
    init_s: list[float] = field(default_factory=list)  # submission to initialization, without a poller

    def take(self, job: Mapping[str, Any], polled: bool) -> None:
        """Add the delays of one job.

        `polled` means that the recorded scheduler initialized jobs by polling.
        """
        if not polled:
            self.init_s.append((job["launchTime"] - job["submitTime"]) / 1000)
        for task, attempt in _succeeded(job, "otherTasks"):
            kind = self.setup_s if task["taskType"] == "SETUP" else self.cleanup_s
            kind.append(_span(attempt))
        tasks = [
            *_succeeded(job, "otherTasks"),
            *_succeeded(job, "mapTasks"),
            *_succeeded(job, "reduceTasks"),
        ]
        met: set[str] = set()
        for task, attempt in sorted(tasks, key=lambda pair: pair[1]["startTime"]):
            if attempt["hostName"] not in met:
                met.add(attempt["hostName"])
                self.localize_s.append((attempt["startTime"] - task["startTime"]) / 1000)
        mapped = max((attempt["finishTime"] for _, attempt in _succeeded(job, "mapTasks")), default=0)
        for _, attempt in _succeeded(job, "reduceTasks"):
            if attempt["startTime"] >= mapped:
                self.start_s.append((attempt["shuffleFinished"] - attempt["startTime"]) / 1000)

    def numbers(self) -> dict[str, float]:
        """Return the numbers of a framework profile: medians, rounded to a tenth of a second."""
        start_s = round(median(self.start_s), 1)
        return {
            "init_s": round(median(self.init_s), 1),
            "setup_s": round(median(self.setup_s), 1),
            "cleanup_s": round(median(self.cleanup_s), 1),
            "localize_s": round(median(self.localize_s), 1),
            "jvm_s": round(start_s - FETCH_POLL_S, 1),
            "fetch_poll_s": FETCH_POLL_S,
        }


def fit(paths: Iterable[Path]) -> dict[str, float]:
    """Return the numbers of a framework profile that the recordings `paths` give."""
    sample = Sample()
    for path in paths:
        polled = read_recording(path).scheduler == "CapacityTaskScheduler"
        for _, job in objects(path):
            sample.take(job, polled)
    return sample.numbers()


def starts_of_a_reply(paths: Iterable[Path], kind: str) -> list[int]:
    """Return how many tasks of a kind each heartbeat's reply started, taking launches on a host within 50 ms
    as one reply.
    """
    found: list[int] = []
    for path in paths:
        launched: dict[str, list[int]] = defaultdict(list)
        for _, job in objects(path):
            for task, attempt in _succeeded(job, kind):
                launched[attempt["hostName"]].append(task["startTime"])
        for times in launched.values():
            last = -1000
            for at in sorted(times):
                if at - last < 50:
                    found[-1] += 1
                else:
                    found.append(1)
                    last = at
    return found


def disturbed(path: Path) -> dict[str, set[int]]:
    """Return the jobs that were delayed by causes outside any profile, as a dictionary from causes to sets of
    jobs.

    A job is its position in the order of submission.
    """
    jobs = sorted((job for _, job in objects(path) if job.get("mapTasks")), key=lambda job: job["submitTime"])
    found: dict[str, set[int]] = {STALLS: set(), RETRIES: set()}
    for place, job in enumerate(jobs):
        tasks = [task for kind in _kinds(job) for task in kind]
        if any(_stalled(task) for task in tasks) or _waited(job):
            found[STALLS].add(place)
        lasts = [max(kind, key=lambda task: task["finishTime"]) for kind in _kinds(job) if kind]
        if any(len(last["attempts"]) > 1 for last in lasts):
            found[RETRIES].add(place)
    return found


def agreement(path: Path, variant: Mapping[str, Any] | None) -> RecordedAgreement:
    """Simulate a recording under FIFO with its recorded slots, and compare the simulation with the recording.

    `variant` has settings of the framework profile hadoop1, or is None for no framework profile.
    """
    trace, recording = read_trace(path), read_recording(path)
    framework = "none" if variant is None else framework_for("hadoop1", recording, **variant)
    with TemporaryDirectory() as folder:
        scenario = resolve(recorded_run.prepare(Path(folder), path, recording, framework))
        choice = scenario.policies[0]
        ends = recorded_run.replay(scenario, choice)
    return recorded_run.judge(trace, scenario, choice.spec, ends)


def figures(names: Sequence[str], half: str) -> Iterator[Figure]:
    """Yield the errors of each trace under each variant of the profile, and the mean over all jobs."""
    pooled: dict[str, list[float]] = defaultdict(list)
    for name in names:
        found: RecordedAgreement | None = None
        for variant, numbers in VARIANTS.items():
            found = agreement(TRACES / name, numbers)
            pooled[variant] += map(abs, found.errors)
            say(f"{name}, {variant}: makespan {found.makespan_error:+.1%}, jobs {found.job_error:.1%}")
            bound: dict[str, Any] = {} if numbers is None else {"low": -15, "high": 15}
            trace = f"{half}, {_stem(name)}, {variant}"
            yield Figure(name=f"{trace}: makespan", values=[100 * found.makespan_error], unit="%", **bound)
            bound = {} if numbers is None else {"high": 25}
            yield Figure(
                name=f"{trace}: mean absolute error per job",
                values=[100 * found.job_error],
                unit="%",
                note=f"{len(found.errors)} jobs; mean completion {found.completion_error:+.1%}",
                **bound,
            )
        assert found is not None
        yield from _misses(name, half, found)
    for variant, errors in pooled.items():
        bound = {} if VARIANTS[variant] is None else {"high": 25}
        label = f"{half}, all jobs, {variant}: mean absolute error per job"
        yield Figure(name=label, values=[100 * mean(errors)], unit="%", note=f"{len(errors)} jobs", **bound)


def _misses(name: str, half: str, found: RecordedAgreement) -> Iterator[Figure]:
    """Yield the number of jobs of a recording that were delayed by outside causes, and the error of the other
    jobs.
    """
    left = set(range(len(found.jobs)))
    for what, places in disturbed(TRACES / name).items():
        left -= places
        if places:
            yield Figure(name=f"{half}, {_stem(name)}, jobs held up {what}", values=[len(places)])
    errors = [
        abs(job.error) for place, job in enumerate(found.jobs) if place in left and job.judged and job.error
    ]
    if errors and len(left) < len(found.jobs):
        label = f"{half}, {_stem(name)}, the other {len(errors)} jobs: mean absolute error per job"
        yield Figure(name=label, values=[100 * mean(errors)], unit="%", note="shuffles as recorded")


def main() -> None:
    """Compute the profile's numbers, judge the simulator with them, and publish the figures."""
    asked = parser(__doc__).parse_args()
    if not TRACES.is_dir():
        raise SystemExit(f"{TRACES}: no such folder, expected the recorded traces (SCHEDBED_TRACES=FOLDER)")
    fitted_on = [TRACES / name for name in FITTED]
    made: list[Figure] = []
    for key, seconds in fit(fitted_on).items():
        note = f"the profile has {getattr(HADOOP1, key):g}"
        made.append(Figure(name=f"fitted {key.removesuffix('_s')}", values=[seconds], unit="s", note=note))
    for kind in ("mapTasks", "reduceTasks"):
        counts = starts_of_a_reply(fitted_on, kind)
        label = f"fitted half: replies that start one of the {kind.removesuffix('Tasks')}s, of those that start any"
        made.append(Figure(name=label, values=[100 * counts.count(1) / len(counts)], unit="%"))
    made += [*figures(FITTED, "fitted half"), *figures(JUDGED, "judged half")]
    publish("recorded_traces", "Recorded traces on their own slots, FIFO", made, asked.out)


def _succeeded(job: Mapping[str, Any], kind: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the tasks of a kind that succeeded at their first attempt, each with that attempt."""
    tasks = [task for task in job.get(kind) or [] if len(task["attempts"]) == 1]
    return [(task, task["attempts"][0]) for task in tasks if task["attempts"][0]["result"] == "SUCCESS"]


def _kinds(job: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    return [job["mapTasks"], job.get("reduceTasks") or []]


def _stem(name: str) -> str:
    return Path(name).name.split(".")[0]


def _stalled(task: Mapping[str, Any]) -> bool:
    """Return whether a task has one attempt, which started more than a minute after its launch."""
    lag_ms = task["attempts"][0]["startTime"] - task["startTime"] if len(task["attempts"]) == 1 else 0
    return lag_ms > 1000 * STALLED_S


def _waited(job: Mapping[str, Any]) -> bool:
    """Return whether a job's set-up began, or a shuffle ended, more than a minute later than possible."""
    mapped = max((attempt["finishTime"] for _, attempt in _succeeded(job, "mapTasks")), default=0)
    shuffles = (
        attempt["shuffleFinished"] - max(mapped, attempt["startTime"])
        for _, attempt in _succeeded(job, "reduceTasks")
    )
    set_ups = (
        task["startTime"] - job["launchTime"]
        for task, _ in _succeeded(job, "otherTasks")
        if task["taskType"] == "SETUP"
    )
    return max([*shuffles, *set_ups], default=0) > 1000 * STALLED_S


def _span(attempt: Mapping[str, Any]) -> float:
    return (attempt["finishTime"] - attempt["startTime"]) / 1000


if __name__ == "__main__":
    main()
