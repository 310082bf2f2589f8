"""`report.html`: one file that needs no network, made of a run's tables; and everything else that views a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from schedbed.deploy.private_files import stay_private
from schedbed.deploy.results import plots, report_data, report_tables, summary, timeline
from schedbed.deploy.results.measures.changed_stretch import stretch_facts
from schedbed.deploy.results.record_check import merge_parts
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.stats import REPEATS_LEAST

NAME = "report.html"
SCRIPTS = ("base.js", "lanes.js", "charts.js")


def rebuild(out_dir: Path | str, *, with_plots: bool = True) -> list[str]:
    """Makes summary.json, timeline.json, report.html and plots/ of a run's folder, finished or cut short.

    Returns the names of damaged part files that were left out. BadInput when the folder holds no run, or its
    tables are not what was written.
    """
    out = Path(out_dir)
    run = RunFile.load(out)
    broken = merge_parts(out, run)
    recorded = Recorded(out, run)
    figures = summary.write(out, run, recorded)
    timeline.write(out, run, recorded)
    data = report_data.build(run, recorded, figures)
    tmp = out / f".{NAME}.tmp"
    tmp.write_text(page(run, recorded, figures, data), encoding="utf-8")
    tmp.replace(out / NAME)
    if with_plots:
        plots.write(out / plots.FOLDER, run, data)
    stay_private(out)
    return broken


def page(run: RunFile, recorded: Recorded, figures: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The HTML text."""
    shown = [recorded.jobs(*key) for key in report_data.first_runs(run)]
    policies = figures["policies"]
    several = run.repeats > 1
    return Template(_part("page.html")).substitute(
        title=escape(str(run.scenario.get("name") or "run")),
        style=_part("style.css"),
        script="\n".join(_part(name) for name in SCRIPTS),
        data=_embedded(data),
        facts=_facts(run),
        banner=_banner(figures["fidelity"]),
        comparison=report_tables.comparison(figures),
        comparison_note=_comparison_note(run),
        all_repeats=f" (all {run.repeats} repeats)" if several else "",
        first_repeat=f" (the first of {run.repeats} repeats)" if several else "",
        deadlines=report_tables.deadlines(shown),
        users=report_tables.users(policies),
        sizes=report_tables.sizes(policies),
        fidelity=report_tables.fidelity(policies),
        jobs=report_tables.jobs(shown),
        footer=_footer(run),
    )


def _part(name: str) -> str:
    return resources.files("schedbed.deploy.results").joinpath("page", name).read_text(encoding="utf-8")


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _facts(run: RunFile) -> str:
    host = run.host
    nodes = run.nodes
    racks = _count(len({node["rack"] for node in nodes}), "rack")
    facts = [
        f"<b>{len(nodes)}</b> emulated nodes in {racks}, {escape(run.machines)} machines",
        f"scale {run.scenario.get('scale', 1):g}, seed {run.seed}, {_count(run.repeats, 'repeat')}",
    ]
    facts += stretch_facts(run)
    if host:
        memory = f", {host['memory_bytes'] / 2**30:.0f} GiB" if host.get("memory_bytes") else ""
        facts.append(f"host: {host.get('cores', '?')} cores{memory}, {escape(str(host.get('system', '')))}")
    if run.hosts:
        facts.append(
            "on "
            + ", ".join(
                f"{escape(name)} ({_count(len(h['nodes']), 'node')})" for name, h in run.hosts.items()
            )
        )
    if run.wall_start:
        facts.append(escape(run.wall_start))
    return " · ".join(facts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _banner(fidelity: Mapping[str, Any]) -> str:
    if fidelity["trusted"] and fidelity["machines"] == "sim":
        return f'<div class="banner"><b>Simulated.</b> {escape(" ".join(fidelity["why"]))}</div>'
    if fidelity["trusted"]:
        return (
            '<div class="banner"><b>Trusted.</b> The host kept up, and no node went beyond its limits.</div>'
        )
    why = "".join(f"<li>{escape(sentence)}</li>" for sentence in fidelity["why"])
    return f'<div class="banner doubt"><b>Not trusted.</b> Read these figures with care:<ul>{why}</ul></div>'


def _comparison_note(run: RunFile) -> str:
    unfinished = [r for r in run.runs if r.state not in ("succeeded", "running")]
    lost = "".join(
        f" {escape(r.policy)}, repeat {r.repeat + 1}: {escape(r.state)}{escape(': ' + r.note if r.note else '')}."
        for r in unfinished
    )
    if run.repeats < REPEATS_LEAST:
        few = f"{_count(run.repeats, 'repeat')}: no intervals and no tests below {REPEATS_LEAST}."
        return f"{few} Below a value: its difference to the first policy.{lost}"
    return (
        f"Means of {run.repeats} repeats with their 95% intervals (Student's t), and the mean difference to the first "
        "policy, paired by repeat. * marks a difference that is not zero, green the best policy of a row: both are "
        "trusted, and all comparisons of the table together say something false in at most 5% of tables (Holm)."
        + lost
    )


def _footer(run: RunFile) -> str:
    versions = ", ".join(f"{escape(k)} {escape(str(v))}" for k, v in run.versions.items())
    return (
        f"Made by schedbed. {versions}. The tables behind this page are the Parquet files beside it; "
        "timeline.json opens in ui.perfetto.dev."
    )
