"""The report of `schedbed doctor`: the limits that the host can enforce, and whether a scenario fits."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from schedbed.cluster.machines.docker.housekeeping import describe_engine
from schedbed.cluster.machines.host_abilities import HostProbe, probe_host
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.scheduler.admission.fgcs import Fgcs
from schedbed.scheduler.policy import Composed
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_bytes, format_rate

CONTROL_CORES = 0.3  # Cores used by Ray, masters, trackers and agents.
NODE_BYTES = 30 * 2**20  # Memory of a node's agent with its forks; 19 MiB were measured (proportional share).
MASTERS_BYTES = 700 * 2**20  # Memory of Ray and the two masters.


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report. `ok` is None for information; `advice` says what to change if it is False."""

    what: str
    found: str
    ok: bool | None = None
    advice: str = ""


def doctor(
    scenario: ResolvedScenario | None,
    console: Console | None = None,
    *,
    machines: str = "process",
    measured: bool = False,
    hostile: bool = False,
    save: Path | None = None,
) -> None:
    """Print the host's resources and whether they suffice for a scenario.

    With `measured`, nodes are started and measured; with `hostile`, uncooperative attempts too. Raises
    RunFailed for too few resources or a limit that does not hold, BadInput if such nodes do not work.
    """
    console = console or Console()
    probe = probe_host(Path(tempfile.gettempdir()))
    engine = "" if probe.docker_why else describe_engine()
    _show(console, "This host", host_findings(probe, engine))
    if scenario is None:
        return
    scenario = settled(scenario)
    if scenario.cluster.stretch != 1:
        console.print(
            f"An emulated second lasts {scenario.cluster.stretch:g} s: rates below are of this host."
        )
    scenario = on_this_host(scenario)
    findings = fit_findings(scenario, probe)
    _show(console, f"Scenario {scenario.name}", findings)
    for warning in policy_warnings(scenario):
        console.print(f"Warning: {warning}", markup=False, highlight=False)
    misfits = [finding for finding in findings if finding.ok is False]
    if misfits:
        raise RunFailed(f"{scenario.name} does not fit on this host: " + "; ".join(f.advice for f in misfits))
    console.print(f"{scenario.name} fits on this host.")
    if measured:
        from schedbed.deploy.doctor.measured_limits import measure_limits

        measure_limits(scenario, console, machines=machines, hostile=hostile, save=save)


def host_findings(probe: HostProbe, engine: str = "answers") -> list[Finding]:
    """Return lines about the host and how it enforces limits. `engine` is shown if Docker works."""
    groups = probe.cgroup_version
    cpu = f"cgroup v{groups}" if groups else f"software pacing ({probe.cgroup_why})"
    memory = f"cgroup v{groups} and RLIMIT_DATA" if probe.cgroup_memory else "RLIMIT_DATA"
    disk = "not measured" if probe.disk_write_bps is None else format_rate(probe.disk_write_bps)
    return [
        Finding("cores", f"{probe.cores:g}"),
        Finding(
            "memory", f"{format_bytes(probe.memory_bytes)}, {format_bytes(probe.memory_free_bytes)} free"
        ),
        Finding("disk", f"{format_bytes(probe.disk_free_bytes)} free, flushed writes {disk}"),
        Finding("CPU limit by", cpu),
        Finding("memory limit by", memory),
        Finding("disk and network limits by", "software budgets"),
        Finding("Docker", probe.docker_why or engine),
        Finding("tc", probe.tc_why or "available"),
    ]


def fit_findings(scenario: ResolvedScenario, probe: HostProbe) -> list[Finding]:
    """Return lines on whether the host suffices for the scenario's nodes."""
    cluster = scenario.cluster
    nodes = cluster.nodes
    off = cluster.limits == "off"
    cores = sum(node.cpu_rate for node in nodes)
    task_bytes = sum(node.memory_bytes for node in nodes)
    own_bytes = NODE_BYTES * len(nodes) + MASTERS_BYTES
    stored = sum(file.length for file in scenario.inputs) * cluster.blocks.replication
    disk_bps = sum(node.disk_bps for node in nodes)
    findings = [
        Finding("nodes", f"{len(nodes)} in {len({node.rack for node in nodes})} racks"),
        Finding(
            "CPU",
            f"{cores:.2f} cores declared, {CONTROL_CORES} for the control plane, {probe.cores:g} there",
            None if off else cores + CONTROL_CORES <= probe.cores,
            "lower cluster.node.core_speed, cores or nodes, or say stretch: auto",
        ),
        Finding(
            "memory",
            f"{format_bytes(task_bytes)} declared, {format_bytes(own_bytes)} for the emulation, "
            f"{format_bytes(probe.memory_free_bytes)} free",
            task_bytes + own_bytes <= probe.memory_free_bytes,
            "lower cluster.node.memory or nodes",
        ),
        Finding(
            "disk space",
            f"{format_bytes(stored)} of input replicas, {format_bytes(probe.disk_free_bytes)} free",
            2 * stored <= probe.disk_free_bytes,
            "lower scale, blocks.replication or the inputs, or set TMPDIR to a larger disk",
        ),
    ]
    if probe.disk_write_bps is not None:
        said = f"{format_rate(disk_bps)} declared in all, flushed writes reach {format_rate(probe.disk_write_bps)}"
        findings.append(Finding("disk rate", f"{said} (the page cache may hide the difference)"))
    return findings


def _show(console: Console, title: str, findings: list[Finding]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    for finding in findings:
        verdict = "" if finding.ok is None else "fits" if finding.ok else f"too much: {finding.advice}"
        table.add_row(finding.what, finding.found, verdict)
    console.print(table)


# Warnings about policies that leave cores of a scenario's nodes idle.


def policy_warnings(scenario: ResolvedScenario) -> Iterator[str]:
    """Yield a warning for each shipped policy under which nodes run one task at a time."""
    for choice in scenario.policies:
        reserved = _reserved_cores(choice)
        if reserved is None:
            continue
        nodes = scenario.cluster.nodes
        tight = [node for node in nodes if node.cores - reserved <= 1]
        if tight:
            yield (
                f"{choice.spec}: a task of a job that no profile knows asks for a whole core, and {len(tight)} of "
                f"{len(nodes)} nodes have {tight[0].cores} cores, {reserved} reserved: such a node runs one task at a "
                "time. Declare more cores, say reserved_cores=0, or profile the jobs first (schedbed profile)."
            )


def _reserved_cores(choice: PolicyChoice) -> int | None:
    """Return the cores that a policy keeps free for daemons, which only FGCS does, or None."""
    if choice.is_own:
        return None
    policy = choice.build(scale=1.0, store="none")
    if isinstance(policy, Composed) and isinstance(policy.admission, Fgcs):
        return policy.admission.reserved_cores
    return None


# The stretch (real seconds per emulated second) of a scenario.
#
# A scenario sets a number, or asks for the least stretch at which this host provides the declared
# resources.

CPU_SHARE = 0.7  # Share of the host's cores for busy nodes; the emulation and the host need the others.
STEP = 0.1


def least_stretch(cluster: ClusterSpec, cores: float, disk_bps: float | None) -> float:
    """Return the least stretch, at least 1, at which the host provides all declared resources.

    It is 1 with `limits: off`. `disk_bps` is None if not measured.
    """
    if cluster.limits == "off":
        return 1.0
    wanted = sum(node.cpu_rate for node in cluster.nodes) / (CPU_SHARE * cores)
    if disk_bps:
        wanted = max(wanted, sum(node.disk_bps for node in cluster.nodes) / disk_bps)
    return max(1.0, math.ceil(wanted / STEP - 1e-9) * STEP)


def on_this_host(scenario: ResolvedScenario) -> ResolvedScenario:
    """Return the scenario in real seconds, with a stretch of 1."""
    cluster, stretch = scenario.cluster, scenario.cluster.stretch
    nodes = tuple(node.stretched(stretch) for node in cluster.nodes)
    heartbeat_s = cluster.heartbeat_s * stretch
    held = replace(cluster, nodes=nodes, heartbeat_s=heartbeat_s, stretch=1.0)
    return replace(scenario, cluster=held.with_links(cluster.links.slowed(stretch)))


def settled(scenario: ResolvedScenario, address: str | None = None) -> ResolvedScenario:
    """Return the scenario with a number for `stretch: auto`, the least for this host. Raises BadInput.

    With a Ray cluster at `address` it cannot be measured.
    """
    if not scenario.auto_stretch:
        return scenario
    if address is not None:
        raise BadInput(f"stretch: auto measures this host only, expected a number with --address {address}")
    probe = probe_host(Path(tempfile.gettempdir()))
    stretch = round(least_stretch(scenario.cluster, probe.cores, probe.disk_write_bps), 1)
    return replace(scenario, cluster=replace(scenario.cluster, stretch=stretch), auto_stretch=False)
