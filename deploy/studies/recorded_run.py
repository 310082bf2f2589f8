"""`schedbed validate TRACE... --recorded`: simulate the jobs of recorded traces, and compare their times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.fit.fit import fitted_scenario
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.isolated import JobEnds
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.studies.fitted_framework import delays_of, fitted, halves
from schedbed.deploy.workspace import result_folder
from schedbed.scheduler.framework import PROFILES, Framework
from schedbed.scheduler.simulate.setup import Stuck
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.recording import recording_of
from schedbed.tasks.traces.trace import Recording, Trace

NAME, SCENARIO, TOPOLOGY = "validate.json", "scenario.yaml", "topology.json"
MAKESPAN_MAX = 0.15
JOB_ERROR_MAX = 0.25  # Bound of the mean absolute error per job.
POLLER = {"init_poll": "5s", "init": "2.5s", "init_jobs": 2}
"""The defaults of the CapacityTaskScheduler's JobInitializationPoller (capacity-scheduler.xml of Hadoop 0.20 to 0.22).

Jobs are selected at a poll and initialized by a thread that sleeps as long between its turns: half a turn on average.
"""
DEFAULTS = {"rumen": "hadoop1"}
"""The framework for a format, by default that of its name, or none."""
HINTS = {
    "spark": "spark-fifo or spark-fair, by the setting spark.scheduler.mode",
    "slurm": "slurm-backfill or slurm-fcfs, by the setting SchedulerType",
    "swf": "such as easy, or easy:backfill=false",
}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobError:
    """A job's completion time, recorded and simulated, `judged` if it succeeded and both are known."""

    job: str
    name: str
    recorded_s: float | None
    simulated_s: float | None
    judged: bool

    @property
    def error(self) -> float | None:
        """Return (simulated - recorded) / recorded, or None if one of the two times is unknown."""
        if not self.recorded_s or self.simulated_s is None:
            return None
        return self.simulated_s / self.recorded_s - 1


@dataclass(frozen=True, slots=True)
class RecordedAgreement:
    """The comparison of a recording with its simulation: jobs, and makespans of those with both ends known."""

    policy: str
    recorded_s: float
    simulated_s: float
    jobs: tuple[JobError, ...]

    @property
    def makespan_error(self) -> float:
        """Return the simulated makespan's relative error."""
        return self.simulated_s / self.recorded_s - 1

    @property
    def errors(self) -> list[float]:
        """Return the compared jobs' relative errors."""
        return [job.error for job in self.jobs if job.judged and job.error is not None]

    @property
    def job_error(self) -> float:
        """Return the compared jobs' mean absolute relative error."""
        return mean(map(abs, self.errors))

    @property
    def completion_error(self) -> float:
        """Return the relative error of the simulated mean completion time of the compared jobs."""
        judged = [job for job in self.jobs if job.judged]
        return (
            sum(job.simulated_s or 0.0 for job in judged) / sum(job.recorded_s or 0.0 for job in judged) - 1
        )

    @property
    def outside(self) -> list[str]:
        """Return a text for each error above MAKESPAN_MAX or JOB_ERROR_MAX."""
        found: list[str] = []
        if abs(self.makespan_error) > MAKESPAN_MAX:
            found.append(f"makespan {self.makespan_error:+.1%} (bound {MAKESPAN_MAX:.0%})")
        if self.job_error > JOB_ERROR_MAX:
            found.append(f"mean absolute error per job {self.job_error:.1%} (bound {JOB_ERROR_MAX:.0%})")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the comparison and its errors as JSON values."""
        return {
            "policy": self.policy,
            "makespan_s": {
                "recorded": self.recorded_s,
                "simulated": self.simulated_s,
                "error": self.makespan_error,
            },
            "mean_absolute_error_per_job": self.job_error,
            "mean_completion_error": self.completion_error,
            "jobs_judged": len(self.errors),
            "jobs": [asdict(job) | {"error": job.error} for job in self.jobs],
            "outside": self.outside,
        }


def framework_for(name: str, recording: Recording, **numbers: Any) -> Any:
    """Return the `framework` section of a scenario that simulates a recording.

    It has the delays of the profile `name`, such as `hadoop1`, then those that the recording shows, then
    `numbers`.
    """
    if name != "hadoop1" and name != "yarn":
        return name
    said: dict[str, Any] = {"recorded_shuffle": True}
    if name == "hadoop1":
        if recording.scheduler == "CapacityTaskScheduler":
            said |= POLLER
        if recording.out_of_band is not None:
            said["out_of_band"] = recording.out_of_band
    said |= numbers
    return {name: said}


def prepare(folder: Path, trace: Path, recording: Recording, framework: Any) -> Path:
    """Write a scenario that simulates a recording, and its topology. Return the scenario's file."""
    values = scenario_values(trace, recording, framework, TOPOLOGY)
    (folder / TOPOLOGY).write_text(json.dumps(topology_values(recording)) + "\n")
    (folder / SCENARIO).write_text(yaml.safe_dump(values, sort_keys=False))
    return folder / SCENARIO


def scenario_values(trace: Path, recording: Recording, framework: Any, topology: str) -> dict[str, Any]:
    """Return a scenario with the recorded hosts, slots and task durations, as in a scenario file."""
    slots = recording.map_slots + recording.reduce_slots
    return {
        "name": "recorded",
        "cluster": {
            "topology": topology,
            "node": {
                "cores": slots,
                "core_speed": 1,
                "memory": f"{slots}GiB",
                "disk": "100MB/s",
                "network": "1Gbit/s",
                "map_slots": recording.map_slots,
                "reduce_slots": recording.reduce_slots,
            },
            "heartbeat": f"{recording.heartbeat_s:g}s",
        },
        "blocks": {"size": "128MiB", "replication": min(recording.replicas, len(recording.hosts))},
        "workload": {"trace": str(trace.resolve())},
        "policies": [recording.policy or "fifo"],
        "framework": framework,
        "simulate": {"costs": "trace", "contention": False},
    }


def topology_values(recording: Recording) -> dict[str, Any]:
    """Return the racks and hosts of a recording in the format of a topology file (Hadoop's Rumen)."""
    racks: dict[str, list[dict[str, Any]]] = {}
    for rack, host in recording.hosts:
        racks.setdefault(rack, []).append({"name": host, "children": None})
    return {
        "name": "<root>",
        "children": [{"name": rack, "children": below} for rack, below in racks.items()],
    }


def replay(scenario: ResolvedScenario, choice: PolicyChoice) -> JobEnds:
    """Return jobs' simulated submit and end times. Raises RunFailed if the simulation cannot go on."""
    ends = JobEnds()
    setup = setup_of(scenario, choice, 0, costs_of(scenario), Latencies())
    try:
        Simulation(replace(setup, heartbeat_rows=False, skip_rows=False), ends).run()
    except Stuck as error:
        raise RunFailed(f"{choice.spec}: {error}") from None
    return ends


def judge(trace: Trace, scenario: ResolvedScenario, policy: str, ends: JobEnds) -> RecordedAgreement:
    """Compare the simulated ends of jobs with the recorded ones.

    `scenario` has the jobs of `trace`. A job that waits for another is submitted after that one's end, recorded as
    well as simulated. Raises BadInput if no job succeeded with a known end.
    """
    jobs: list[JobError] = []
    recorded_s = simulated_s = 0.0
    ended_s = {job.number: job.submit_s + job.duration_s for job in trace.jobs if job.duration_s is not None}
    for planned, job in zip(scenario.jobs, trace.jobs, strict=True):
        end_s, lasted_s = ends.finish_s.get(planned.job), job.duration_s
        if lasted_s is not None and planned.after is not None and job.after in ended_s:
            lasted_s -= max(0.0, ended_s[job.after] + job.think_s - job.submit_s)
        known = lasted_s is not None and lasted_s > 0 and end_s is not None
        jobs.append(
            JobError(
                job=planned.job,
                name=job.name,
                recorded_s=lasted_s,
                simulated_s=None if end_s is None else end_s - ends.submit_s[planned.job],
                judged=known and job.succeeded,
            )
        )
        if known:
            recorded_s = max(recorded_s, planned.submit_s + (job.duration_s or 0.0))
            simulated_s = max(simulated_s, end_s or 0.0)
    if not any(job.judged for job in jobs):
        raise BadInput("no job of the trace succeeded with a recorded end, nothing to be held against")
    return RecordedAgreement(policy, recorded_s, simulated_s, tuple(jobs))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A recording with the scenario that simulates it, and the folder of that scenario."""

    file: Path
    folder: Path
    trace: Trace
    scenario: ResolvedScenario
    assumed: list[str]


def validate_recorded(
    trace_files: Sequence[Path],
    out: Path | None,
    *,
    framework: str | None = None,
    policies: Sequence[str] | None = None,
    sets: Sequence[str] = (),
    fit: bool = False,
    confs: Sequence[Path] = (),
    say: Say = print,
) -> list[RecordedAgreement]:
    """Simulate recorded traces, or scenarios of such, under each policy. Print and return the comparisons.

    The folder `out` gets validate.json, and a scenario with its topology for `schedbed run --machines sim`; of
    several traces, each has a folder there. `framework` is the profile of delays, `sets` are changes `KEY=VALUE`,
    and `confs` the configuration files of the recorded cluster. With `fit`, half of the recordings fit the delays,
    and only the others are compared. Raises BadInput for a trace that is not a recording, RunFailed if an error of
    the simulator is too large.
    """
    root = result_folder(out, "recorded", datetime.now(UTC))
    many = len(trace_files) > 1
    held = [
        _prepared(
            file,
            root / f"{number:02d}-{file.name.partition('.')[0]}" if many else root,
            framework,
            policies,
            sets,
            confs,
        )
        for number, file in enumerate(trace_files, start=1)
    ]
    values: dict[str, Any] = {"recorded": True}
    if fit:
        held, values["fit"] = _with_fitted_delays(held, say)
    found: list[RecordedAgreement] = []
    reports: list[dict[str, Any]] = []
    for each in held:
        made = [
            judge(each.trace, each.scenario, choice.spec, replay(each.scenario, choice))
            for choice in each.scenario.policies
        ]
        found += made
        reports.append(_report(each, made))
        if many:
            say(f"\n{each.file}")
        for agreement in made:
            _show(agreement, say)
        for line in reports[-1]["assumed"]:
            say(f"assumed: {line.removeprefix('assumed: ')}")
    values |= {"recordings": reports} if many else reports[0]
    (root / NAME).write_text(json.dumps(values, indent=1) + "\n")
    if many:
        _show_all(found, say)
    say(f"Results: {root / NAME}")
    outside = dict.fromkeys(f"{each.policy}: {', '.join(each.outside)}" for each in found if each.outside)
    if outside:
        raise RunFailed("the simulator is outside its bounds: " + "; ".join(outside))
    return found


def _prepared(
    file: Path,
    folder: Path,
    framework: str | None,
    policies: Sequence[str] | None,
    sets: Sequence[str],
    confs: Sequence[Path],
) -> _Prepared:
    """Resolve the scenario that simulates a recording, which is first written if `file` is a trace. Raises BadInput.

    A scenario file, and the scenario of a history whose system's configuration gives the cluster, say the recorded
    policy. Other traces say their cluster themselves.
    """
    if file.suffix in (".yaml", ".yml"):
        if confs or framework is not None:
            raise BadInput(
                f"{file}: --conf and --framework only go with a trace, expected the scenario's own"
            )
        scenario, assumed = resolve(file, sets=sets, policies=policies), list[str]()
        file = _trace_of(scenario, file)
        trace = read_trace(file)
    else:
        trace = read_trace(file)
        if trace.topology is not None or not trace.jobs:
            raise BadInput(f"{file}: holds hosts and no jobs, expected a recording of jobs")
        folder.mkdir(parents=True, exist_ok=True)
        if confs or trace.format == "jhist":
            if framework is not None:
                sets = [*sets, f"framework={framework}"]
            made = fitted_scenario(file, confs, folder / SCENARIO)
            made.write(folder / SCENARIO, [file, *confs])
            assumed = [*made.assumed, *made.without, *made.contradicted]
        else:
            assumed = _prepare_as_traced(file, folder, trace, framework, policies)
        scenario = resolve(folder / SCENARIO, sets=sets, policies=policies)
    if len(scenario.jobs) != len(trace.jobs) or scenario.scale != 1:
        raise BadInput(
            "--recorded: the whole trace is replayed at scale 1, expected no --set of select or scale"
        )
    if policies is None and scenario.record is not None:
        name = scenario.record["policy"]
        mine = [choice for choice in scenario.policies if choice.spec.partition(":")[0] == name]
        scenario = replace(scenario, policies=tuple(mine[:1]) or scenario.policies)
    return _Prepared(file, folder, trace, scenario, [*assumed, "attempts last as long as recorded"])


def _trace_of(scenario: ResolvedScenario, file: Path) -> Path:
    """Return the path of the scenario's trace. Raises BadInput if its workload is no trace."""
    trace = scenario.given.get("workload", {}).get("trace")
    if trace is None:
        raise BadInput(f"{file}: workload: no trace, expected `trace: FILE` with --recorded")
    return Path(scenario.base) / Path(trace).expanduser()


def _prepare_as_traced(
    file: Path, folder: Path, trace: Trace, framework: str | None, policies: Sequence[str] | None
) -> list[str]:
    """Write the scenario of a trace that says its cluster. Return the lines on what was assumed. Raises BadInput."""
    recording = recording_of(trace, file)
    if policies is None and recording.policy is None and trace.format != "rumen":
        raise BadInput(f"{file}: the trace does not say its policy, expected --policy {HINTS[trace.format]}")
    name = framework or DEFAULTS.get(trace.format, trace.format)
    prepare(folder, file, recording, framework_for(name if name in PROFILES else "none", recording))
    heartbeats = f"heartbeats each {recording.heartbeat_s:g} s"
    return [*recording.why, *_said_of(recording), heartbeats]


def _report(held: _Prepared, found: Sequence[RecordedAgreement]) -> dict[str, Any]:
    """Return the values of validate.json for one recording."""
    return {
        "trace": str(held.file),
        "recorded": True,
        "framework": asdict(held.scenario.framework),
        "policies": [each.to_json() for each in found],
        "assumed": [*held.assumed, *_framework_lines(held.scenario.framework), *held.scenario.warnings],
    }


def _with_fitted_delays(held: Sequence[_Prepared], say: Say) -> tuple[list[_Prepared], dict[str, Any]]:
    """Return the recordings that judge, with the delays that the others fitted, and the fit's values for the report.

    Raises BadInput for less than two recordings, several policies, or different frameworks.
    """
    fitting, judging = halves(len(held))
    if not judging:
        raise BadInput(
            "--fit: one recording, expected at least two: one half fits the delays, the other judges them"
        )
    if any(len(each.scenario.policies) > 1 for each in held):
        raise BadInput("--fit: several policies, expected the one of the recorded system")
    profiles = {each.scenario.framework for each in held}
    if len(profiles) > 1:
        raise BadInput("--fit: recordings of different frameworks, expected one system")
    [profile] = profiles

    def error_of(number: int, framework: Framework) -> float:
        each = held[number]
        scenario = replace(each.scenario, framework=framework)
        [choice] = scenario.policies
        return judge(each.trace, scenario, choice.spec, replay(scenario, choice)).job_error

    if profile.is_none:
        profile = replace(profile, name=held[0].trace.format)
    found = fitted(profile, fitting, error_of)
    errors = {
        when: {
            "fitting": [error_of(number, one) for number in fitting],
            "judging": [error_of(number, one) for number in judging],
        }
        for when, one in (("before", profile), ("after", found))
    }
    say(f"fitted on {len(fitting)} recordings: {delays_of(found)} (before: {delays_of(profile)})")
    for half, count in (("fitting", len(fitting)), ("judging", len(judging))):
        before, after = errors["before"][half], errors["after"][half]
        say(
            f"mean absolute error per job, the {count} {half}: {_spread(before)} before, {_spread(after)} after"
        )
    values = {"framework": asdict(found), "before": asdict(profile), "errors": errors}
    kept = [
        replace(each, scenario=replace(each.scenario, framework=found))
        for each in map(held.__getitem__, judging)
    ]
    return kept, values | {"fitting": [str(held[number].file) for number in fitting]}


def _spread(errors: Sequence[float]) -> str:
    return f"{mean(errors):.1%} ({min(errors):.1%} to {max(errors):.1%})"


def _show_all(found: Sequence[RecordedAgreement], say: Say) -> None:
    """Print, for each policy, how the errors of its recordings are spread."""
    say("\nall recordings, from the least to the largest error of each")
    for policy in dict.fromkeys(each.policy for each in found):
        mine = [each for each in found if each.policy == policy]
        errors, makespans = [each.job_error for each in mine], [each.makespan_error for each in mine]
        say(
            f"{policy}: mean absolute error per job {_spread(errors)}, "
            f"makespan {mean(makespans):+.1%} ({min(makespans):+.1%} to {max(makespans):+.1%}), "
            f"{len(mine)} recordings, {sum(len(each.errors) for each in mine)} jobs"
        )


def _said_of(recording: Recording) -> list[str]:
    lines = [] if recording.scheduler is None else [f"recorded under the {recording.scheduler}"]
    if recording.out_of_band is not None:
        lines.append(f"recorded with out-of-band heartbeats {'on' if recording.out_of_band else 'off'}")
    return lines


def _framework_lines(framework: Framework) -> list[str]:
    shown = ", ".join(
        f"{key} {value:g}" for key, value in asdict(framework).items() if not isinstance(value, str)
    )
    return [f"framework {framework.name}" + (f": {shown}" if not framework.is_none else "")]


def _show(found: RecordedAgreement, say: Say) -> None:
    say(f"\n{found.policy}: recorded against simulated completion")
    width = max(len(job.name) for job in found.jobs) + len("job_0000 ")
    say(f"{'':{width}}  {'recorded [s]':>12}  {'simulated [s]':>13}  {'error':>8}")
    for job in found.jobs:
        label = f"{job.job} {job.name}"
        error = "" if job.error is None else f"{job.error:+.1%}"
        note = "" if job.judged else "  not judged: failed in the recording, or has no recorded end"
        say(
            f"{label:{width}}  {_seconds(job.recorded_s):>12}  {_seconds(job.simulated_s):>13}  {error:>8}{note}"
        )
    say(
        f"{'makespan':{width}}  {_seconds(found.recorded_s):>12}  {_seconds(found.simulated_s):>13}  "
        f"{found.makespan_error:>+8.1%}  within {MAKESPAN_MAX:.0%}"
    )
    say(
        f"mean absolute error per job, of {len(found.errors)}: {found.job_error:.1%}  within {JOB_ERROR_MAX:.0%}"
    )
    say(f"mean completion: {found.completion_error:+.1%}")
    if found.outside:
        say(f"OUTSIDE: {', '.join(found.outside)}")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
