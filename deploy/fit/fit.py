"""A scenario from a history and configuration files: the cluster, its jobs, and its scheduler with its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from schedbed.deploy.fit.allocations import read_allocations
from schedbed.deploy.fit.cluster_settings import ClusterSettings, text_of
from schedbed.deploy.fit.hadoop import CAPACITY, FAIR, complete, read_configuration
from schedbed.deploy.fit.plain_conf import BACKFILL, read_slurm, read_spark
from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.registry.policy_spec import parse_spec
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.convert import trace_demands
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.fit_cluster import fit_cluster
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.units import parse_size

DEFAULTS = {"jhist": CAPACITY, "rumen": "fifo", "spark": "spark-fifo", "slurm": BACKFILL, "swf": BACKFILL}
"""The scheduler of a system that no file names, by the format of the history."""
FRAMEWORKS = {"yarn-": "yarn", "hadoop1": "hadoop1", "spark": "spark", "slurm": "slurm"}
SAMPLE = 20  # Number of jobs that are resolved as a check before the file is written.
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FittedScenario:
    """The values of a scenario made from a history and configuration files, and lines on where they come from."""

    values: dict[str, Any]
    trace: Trace
    taken: list[str]
    without: list[str]
    contradicted: list[str]
    assumed: list[str]

    def write(self, out: Path, files: Sequence[Path]) -> None:
        """Write the scenario, which was made from `files`. Raises BadInput if `out` exists or cannot be written."""
        named = ", ".join(each.name for each in files)
        lines = [f"Made by schedbed from {named}."]
        lines += [f"without counterpart: {each}" for each in self.without]
        lines += [f"contradicted by the history: {each}" for each in self.contradicted]
        try:
            with out.open("x", encoding="utf-8") as written:
                written.writelines(f"# {line}\n" for line in lines)
                yaml.safe_dump(self.values, written, sort_keys=False, default_flow_style=None, width=120)
        except OSError as error:
            raise BadInput(f"{out}: cannot write: {error.strerror or error}") from None


def fit(histories: Sequence[Path], confs: Sequence[Path], out: Path, say: Say) -> None:
    """Write a scenario to `out`, and print what it took from where. Raises BadInput; then nothing is written.

    Files among `histories` that are named like configurations are such: `--conf a.xml b.xml`.
    """
    if out.exists():
        raise BadInput(f"{out}: is there already, expected the path of a new file")
    confs = [*confs, *(path for path in histories if path.suffix in (".xml", ".conf"))]
    history, *more = [path for path in histories if path not in confs] or [Path()]
    if more:
        raise BadInput(
            f"HISTORY: {1 + len(more)} paths, expected one file, or one folder that holds all files"
        )
    if not history.exists() or history == Path():
        raise BadInput(f"HISTORY: no file or folder {str(history)!r}")
    made = fitted_scenario(history, confs, out)
    checked = {**made.values, "workload": {**made.values["workload"], "trace": str(history.resolve())}}
    policies_of(made.values["policies"])
    sample = {**checked, "workload": {**checked["workload"], "select": {"jobs": SAMPLE}}}
    resolved = resolve(
        sample, policies=["fifo"]
    )  # Queues that the policies lack are among the contradictions.
    _say_all(say, "taken", made.taken)
    _say_all(say, "without counterpart", made.without)
    _say_all(say, "contradicted by the history", made.contradicted)
    _say_all(say, "assumed", list(dict.fromkeys([*made.assumed, *made.trace.warnings, *resolved.warnings])))
    made.write(out, [history, *confs])
    named = ", ".join(map(_policy_name, made.values["policies"]))
    say(f"{out}: {len(made.trace.jobs)} jobs under {named}")
    say(f"check it with: schedbed validate {out} --recorded")
    say(f"run it with: schedbed run {out} --machines sim")


def fitted_scenario(history: Path, confs: Sequence[Path], out: Path) -> FittedScenario:
    """Return the scenario to be written to `out`. Raises BadInput for a history or file that cannot be read."""
    trace = read_trace(history)
    if not trace.jobs:
        raise BadInput(f"{history}: no jobs, expected a history of jobs")
    reading = ClusterSettings()
    for read, path, text in _in_order(confs):
        try:
            read(path, text, reading)
        except ValueError as error:  # A number that is none, in the few places that no `Counterpart` reads.
            raise BadInput(f"--conf {path}: {error}") from None
    complete(reading)
    values, assumed = scenario_of(trace, history, out, reading)
    against = contradicted(trace, values, reading)
    return FittedScenario(values, trace, reading.taken, reading.without, against, assumed)


def _say_all(say: Say, head: str, lines: Sequence[str]) -> None:
    say(f"{head}: {'nothing' if not lines else len(lines)}")
    for line in lines:
        say(f"  {line}")


def _in_order(
    confs: Sequence[Path],
) -> Iterable[tuple[Callable[[Path, str, ClusterSettings], None], Path, str]]:
    """Yield each file with its reader: allocation files last, since other files tell whose they are."""
    late: list[tuple[Callable[[Path, str, ClusterSettings], None], Path, str]] = []
    for path in confs:
        text = text_of(path)
        if "<allocations" in text:
            late.append((read_allocations, path, text))
        elif "<configuration" in text:
            yield read_configuration, path, text
        elif any(
            line.split("=")[0].strip().lower() in ("nodename", "schedulertype") for line in text.splitlines()
        ):
            yield read_slurm, path, text
        elif any(line.startswith("spark.") for line in text.splitlines()):
            yield read_spark, path, text
        else:
            raise BadInput(
                f"--conf {path}: no configuration known here, expected Hadoop's XML, fair-scheduler.xml, slurm.conf, "
                "Spark's fairscheduler.xml or spark-defaults.conf"
            )
    yield from late


def scenario_of(
    trace: Trace, history: Path, out: Path, reading: ClusterSettings
) -> tuple[dict[str, Any], list[str]]:
    """Return the scenario's values, and a line for each that is assumed."""
    sections, assumed = reading.sections, list[str]()
    policy = reading.policy
    if not policy and trace.recording is not None and trace.recording.policy is not None:
        told = parse_spec(trace.recording.policy, ())
        policy = told.name
        reading.section(policy).update(told.parameters)
        reading.note("the history's environment", "policy", trace.recording.policy, f"policy {policy}")
    elif not policy:
        policy = DEFAULTS.get(trace.format, "fifo")
        assumed.append(f"policy {policy}: no file names a scheduler; this is the default of {trace.format}")
    shape = fit_cluster(trace, trace_demands(trace))
    if policy.startswith("yarn-"):
        assumed += _assume_containers(reading, shape.map_slots)
        shape = replace(shape, reduce_slots=0)  # Maps and reduces share the containers that were seen.
    cluster: dict[str, Any] = shape.values() | sections.get("cluster", {})
    cluster["node"] |= sections.get("node", {})
    assumed.append(f"cluster: {cluster['nodes']} nodes of {shape.why}")
    framework = next((name for prefix, name in FRAMEWORKS.items() if policy.startswith(prefix)), "none")
    changed = sections.get("framework", {})
    workload = {"trace": _from(history, out), **sections.get("workload", {})}
    if any(job.duration_s for job in trace.jobs):
        workload["recorded_under"] = policy
    replicas = 3 if trace.recording is None else trace.recording.replicas
    blocks = {"replication": min(replicas, cluster["nodes"])} | sections.get("blocks", {})
    others = [
        name for name in (CAPACITY, FAIR) if name != policy and {"queues"} & set(sections.get(name, {}))
    ]
    return {
        "name": out.stem,
        "cluster": cluster,
        "blocks": blocks,
        "workload": workload,
        "policies": [_with(name, sections) for name in (policy, *others)],
        "framework": {framework: changed} if changed and framework != "none" else framework,
        **sections.get("scenario", {}),
    }, assumed


def _assume_containers(reading: ClusterSettings, containers: int) -> list[str]:
    """Complete the memory of containers, and of nodes that ran `containers` at once. Return what was assumed."""
    memory, node, master = (reading.section(name) for name in ("workload", "node", "framework"))
    lacking = [kind for kind in ("map", "reduce") if f"{kind}_memory" not in memory]
    for kind in lacking:
        memory[f"{kind}_memory"] = "1GiB"
    said = [f"mapreduce.{kind}.memory.mb: 1 GiB, its default" for kind in lacking]
    if "am_memory" not in master:
        master["am_memory"] = memory["map_memory"] if "map" in lacking else "1536MiB"
        said.append(
            "memory of an ApplicationMaster: that of a map"
            if "map" in lacking
            else "yarn.app.mapreduce.am.resource.mb: 1536 MiB, its default"
        )
    if "memory" not in node:
        node["memory"] = f"{containers * parse_size(memory['map_memory']) >> 20}MiB"
        said.append(f"memory of a node: that of {containers} maps")
    for kind in ("map", "reduce"):
        node.setdefault(f"{kind}_slots", node.get("cores", containers))
    return said


def _with(policy: str, sections: dict[str, dict[str, Any]]) -> Any:
    """Return a policy with the settings that were read for it."""
    common = sections.get("spark", {}) if policy.startswith("spark") else {}
    settings = {**common, **sections.get(policy, {})}
    return {policy: settings} if settings else policy


def _policy_name(policy: Any) -> str:
    return policy if isinstance(policy, str) else next(iter(policy))


def _from(history: Path, out: Path) -> str:
    """Return the history's path as seen from the scenario's folder."""
    return os.path.relpath(history.resolve(), out.resolve().parent)


def contradicted(trace: Trace, scenario: dict[str, Any], reading: ClusterSettings) -> list[str]:
    """Return a line for each setting that cannot have held when the history was recorded."""
    found: list[str] = []
    named = {job.queue.removeprefix("root.") for job in trace.jobs if job.queue}
    if reading.queues is not None:
        leaves = reading.queues | {name.rpartition(".")[2] for name in reading.queues}
        for queue in sorted(named - leaves):
            jobs = sum(
                job.queue is not None and job.queue.removeprefix("root.") == queue for job in trace.jobs
            )
            found.append(
                f"queue {queue}: {jobs} jobs ran in it, capacity-scheduler.xml has {', '.join(sorted(reading.queues))}"
            )
    hosts = {host for _, host in trace.hosts}
    nodes = reading.sections.get("cluster", {}).get("nodes")
    if nodes is not None and len(hosts) > nodes:
        found.append(f"nodes: {len(hosts)} hosts ran tasks, the configuration has {nodes}")
    return found
