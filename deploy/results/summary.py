"""The file `summary.json`: all metrics of each policy, the comparison of the policies, and the fidelity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schedbed.deploy.results import comparison, metrics, stats
from schedbed.deploy.results.fidelity import assess, assess_hosts, combine_hosts, doubt_unfinished
from schedbed.deploy.results.measures.approximate_rates import approximate_rates
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.results.referee import Referee
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.tasks.errors import BadInput

NAME = "summary.json"


Measures = tuple[dict[str, Any], dict[str, Any]]
"""The metrics and the fidelity of one policy in one repeat."""


def in_order(run: RunFile) -> list[RunRecord]:
    """Return the records in the order in which `build` takes their measures."""
    return sorted(run.runs, key=lambda record: record.repeat)


def build(run: RunFile, of_records: Iterable[Measures]) -> dict[str, Any]:
    """Return summary.json from each record's measures, `in_order`. `paired` has differences to the first policy."""
    measured: dict[str, dict[int, dict[str, Any]]] = {policy: {} for policy in run.policies}
    parts: dict[str, list[dict[str, Any]]] = {policy: [] for policy in run.policies}
    for record, (metrics_of_run, fidelity_of_run) in zip(in_order(run), of_records, strict=True):
        measured[record.policy][record.repeat] = metrics_of_run
        parts[record.policy].append(fidelity_of_run)
    first = measured[run.policies[0]] if run.policies else {}
    fidelity = {policy: combine_hosts(parts[policy]) for policy in run.policies}
    policies: dict[str, Any] = {}
    for policy, repeats in measured.items():
        policies[policy] = stats.tree(list(repeats.values()))
        both = [repeat for repeat in repeats if repeat in first] if repeats is not first else []
        policies[policy]["paired"] = stats.differences([repeats[r] for r in both], [first[r] for r in both])
        policies[policy]["fidelity"] = fidelity[policy]
        policies[policy]["evidence"] = _evidence(run, policies[policy])
        records = [run.run(policy, repeat) for repeat in run_keys(run, policy)]
        findings = [_figures(record.findings) for record in records if record is not None]
        if any(findings):
            policies[policy]["findings"] = {"repeats": findings}
    return {
        "policies": policies,
        "scenario": run.scenario.get("name", ""),
        "machines": run.machines,
        **({"stretch": run.stretch} if run.stretch != 1 else {}),
        **approximate_rates(run),
        **_measured(run),
        "fidelity": combine_hosts(list(fidelity.values())),
        "comparison": comparison.compare(
            policies, {policy: list(repeats) for policy, repeats in measured.items()}
        ),
    }


def _evidence(run: RunFile, policy: Mapping[str, Any]) -> str:
    """Return what kind of figures a policy has."""
    if run.machines != "sim":
        return f"measured live ({run.machines})"
    errors = policy.get("record_error")
    if errors is None or errors["median"]["mean"] is None:
        return "simulated, unchecked"
    median, jobs = errors["median"]["mean"], errors["jobs"]["mean"]
    return f"simulated, checked against the record: median error of a job {median:.1%} ({jobs:.0f} jobs)"


def _measured(run: RunFile) -> dict[str, Any]:
    """Return the entry `measure`, or an empty dictionary if the whole run is measured."""
    window = Window.of(run.scenario.get("measure"))
    return {} if window is None else {"measure": window.told(run.scenario.get("jobs", []))}


def write(out_dir: Path | str, run: RunFile, of_records: Iterable[Measures]) -> dict[str, Any]:
    """Write summary.json into a run's folder and return its content. The arguments are as in `build`."""
    summary = build(run, of_records)
    path = Path(out_dir) / NAME
    tmp = path.with_name(f".{NAME}.tmp")
    tmp.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    tmp.replace(path)
    return summary


def load(out_dir: Path | str) -> dict[str, Any]:
    """Return the content of summary.json. Raises BadInput if the file is missing or damaged."""
    path = Path(out_dir) / NAME
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInput(f"{path}: not found, expected the folder of a finished run") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: not a summary ({error})") from error


def _figures(findings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's findings except `profiles` and `limits`, which only run.json stores."""
    return {topic: values for topic, values in findings.items() if topic not in ("profiles", "limits")}


def impossible_rows(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each kind of impossible rows of each policy."""
    return [
        f"{policy}: {line}"
        for policy, figures in summary["policies"].items()
        for line in figures["fidelity"].get("impossible", ())
    ]


def run_keys(run: RunFile, policy: str) -> list[int]:
    """Return the repeats in which the policy was started, in ascending order."""
    return sorted(record.repeat for record in run.runs if record.policy == policy)


def fidelity_of(
    run: RunFile, record: RunRecord, mine: metrics.RunTables, referee: Referee | None = None
) -> dict[str, Any]:
    """Return the fidelity (`fidelity.assess`) of one policy in one repeat, not trusted with impossible rows."""
    judged = _judged(run, record, mine)
    referee = referee or Referee(run)
    tasks = referee.tasks(mine.tables)
    if doubts := referee.memory_doubts(tasks):
        judged |= {"trusted": False, "why": [*doubts, *judged["why"]]}
    impossible = referee.impossible(record, mine.tables, tasks)
    if impossible:
        judged |= {"trusted": False, "why": [*impossible, *judged["why"]], "impossible": impossible}
    ended = set(texts_of(mine.jobs["job"]))
    return doubt_unfinished(judged, run.jobs, ended, interrupted=record.state == "interrupted")


def _judged(run: RunFile, record: RunRecord, mine: metrics.RunTables) -> dict[str, Any]:
    if run.hosts:
        return assess_hosts(
            machines=run.machines,
            hosts=run.hosts,
            loads=record.hosts,
            nodes=run.nodes,
            heartbeats=mine.heartbeats,
            enforced=record.limits,
            counted=record.counted,
            stretch=run.stretch,
        )
    return assess(
        machines=run.machines,
        host_cores=run.host.get("cores"),
        host_samples=record.host_samples,
        nodes=run.nodes,
        heartbeats=mine.heartbeats,
        enforced=record.limits,
        counted=record.counted,
        stretch=run.stretch,
    )
