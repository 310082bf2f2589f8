"""The file `report.html`, and the function that makes all result files from a run's tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.results import metrics, plots, stats, summary, timeline
from schedbed.deploy.results.fidelity import doubts
from schedbed.deploy.results.in_progress import readable
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.waits import SIZES
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.page import report_data, report_tables, templates, why
from schedbed.deploy.results.page.bands import NODES_ALONE, Bands
from schedbed.deploy.results.page.run_facts import RunFacts
from schedbed.deploy.results.record_check import merge_parts
from schedbed.deploy.results.recorded import VIEWED, Key, Recorded
from schedbed.deploy.results.referee import Referee, refuse_impossible
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.shared_work import cores_for, share
from schedbed.deploy.results.table import show
from schedbed.deploy.workspace import locked, stay_private
from schedbed.tasks.errors import BadInput

NAME = "report.html"
SCRIPTS = ("base.js", "why.js", "lanes.js", "bands.js", "charts.js")


def rebuild(
    out_dir: Path | str,
    run: RunFile | None = None,
    *,
    with_report: bool = True,
    with_plots: bool = True,
) -> RunFile:
    """Make summary.json, timeline.json, report.html and the plots of a run, also one that was cut short.

    `with_plots` needs `with_report`. Return the record, which names damaged part files left out. Raises
    BadInput without a run, or for changed tables.
    """
    out = Path(out_dir)
    run = RunFile.load(out) if run is None else run
    merge_parts(out, run)
    recorded = Recorded(out, run)
    try:
        parts = make_parts(out, run, recorded, with_report=with_report)
    except BadInput:
        raise
    except Exception:
        refuse_impossible(out, run, also_failed=True)  # Metrics may fail on such rows.
        raise
    figures = summary.write(out, run, parts.measures)
    if with_report:
        _write_report(out, run, recorded, figures, parts, with_plots=with_plots)
    stay_private(out)
    return run


def report_on(folder: Path) -> None:
    """Rebuild a run's result files and print the path of the report, or print the comparison so far if it goes on.

    Part files that a killed run left are merged first. Raises BadInput as `rebuild` does, and RunFailed for
    impossible rows.
    """
    with readable(folder) as place:
        if place != folder:
            rebuild(place, with_report=False)
            show(summary.load(place), Console())
            return
        unsealed = not RunFile.load(folder).tables
        with locked(folder) if unsealed else nullcontext():
            run = rebuild(folder)
    for part in run.left_out:
        print(f"note: damaged and left out: {part}", file=sys.stderr)
    print(folder / NAME)
    if impossible := summary.impossible_rows(summary.load(folder)):
        raise RunFailed("; ".join(impossible))


def _write_report(
    out: Path,
    run: RunFile,
    recorded: Recorded,
    figures: Mapping[str, Any],
    parts: RunParts,
    *,
    with_plots: bool,
) -> None:
    report_data.add_figures(parts.data, figures)
    tmp = out / f".{NAME}.tmp"
    tmp.write_text(page(run, recorded, figures, parts), encoding="utf-8")
    tmp.replace(out / NAME)
    if with_plots:
        plots.write(out / plots.FOLDER, run, parts.data)


def page(run: RunFile, recorded: Recorded, figures: Mapping[str, Any], parts: RunParts) -> str:
    """Return the content of report.html. `figures` is the content of summary.json."""
    from markupsafe import Markup

    data = parts.data
    shown = [recorded.jobs(*key).counted for key in report_data.first_runs(run)]
    counted = {
        policy["name"]: {(answer, reason): count for answer, reason, count in policy["answers"]}
        for policy in data["policies"]
    }
    drawn = [{key: value for key, value in policy.items() if key != "answers"} for policy in data["policies"]]
    policies, fidelity = figures["policies"], figures["fidelity"]
    jobs = {
        policy: {
            repeat: recorded.jobs(policy, repeat).counted.jobs for repeat in summary.run_keys(run, policy)
        }
        for policy in run.policies
    }
    several = run.repeats > 1
    return templates.filled(
        "page.html",
        title=str(run.scenario.get("name") or "run"),
        style=templates.style(),
        script=Markup("\n".join(templates.part(name) for name in SCRIPTS)),
        data={**data, "policies": drawn},
        facts=_facts(run),
        doubts=doubts(fidelity),
        trust=_trust(fidelity),
        several_policies=len(policies) > 1,
        why=why.explanation(figures, parts.facts, jobs),
        why_note=_why_note(run),
        comparison=report_tables.comparison(figures),
        comparison_note=_comparison_note(run),
        all_repeats=f" (all {run.repeats} repeats)" if several else "",
        first_repeat=f" (the first of {run.repeats} repeats)" if several else "",
        sizes_most=SIZES,
        bands=Bands.of(run.nodes) is not None,
        nodes_alone=NODES_ALONE,
        decisions=report_tables.decisions(counted),
        decisions_summary=_decisions_summary(run, counted),
        deadlines=report_tables.deadlines(shown),
        queues=report_tables.queues(policies),
        users=report_tables.users(policies),
        sizes=report_tables.sizes(policies),
        fidelity=report_tables.fidelity(policies),
        jobs=report_tables.jobs(shown),
        jobs_count=len({job for mine in shown for job in texts_of(mine.jobs["job"])}),
        footer=_footer(run),
    )


def _facts(run: RunFile) -> list[str]:
    host = run.host
    racks = _count(len({node["rack"] for node in run.nodes}), "rack")
    facts = [
        f"{len(run.nodes)} emulated nodes in {racks}, {run.machines} machines",
        f"scale {run.scenario.get('scale', 1):g}, seed {run.seed}, {_count(run.repeats, 'repeat')}",
    ]
    if run.stretch != 1:
        facts.append(f"an emulated second lasted {run.stretch:g} s")
    if host:
        memory = f", {host['memory_bytes'] / 2**30:.0f} GiB" if host.get("memory_bytes") else ""
        facts.append(f"host: {host.get('cores', '?')} cores{memory}, {host.get('system', '')}")
    if run.hosts:
        dealt = [f"{name} ({_count(len(h['nodes']), 'node')})" for name, h in run.hosts.items()]
        facts.append(f"on {', '.join(dealt)}")
    return [*facts, *([run.wall_start] if run.wall_start else [])]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _trust(fidelity: Mapping[str, Any]) -> tuple[str, str]:
    if fidelity["machines"] == "sim":
        head, _, told = " ".join(fidelity["why"]).partition(": ")
        return f"{head}:", told
    return "Trusted.", "The host kept up, and no node went beyond its limits."


def _why_note(run: RunFile) -> str:
    if run.repeats < stats.REPEATS_LEAST:
        return (
            f"What {_count(run.repeats, 'repeat')} did; nothing is tested, and it may be chance: "
            f"--repeats {stats.REPEATS_LEAST} is the least for a test."
        )
    return (
        f"Only what the tests of {run.repeats} repeats carry, after Holm's adjustment. A percentage is the mean over "
        "repeats with its 95% interval."
    )


def _decisions_summary(run: RunFile, counted: Mapping[str, Mapping[tuple[str, str], int]]) -> str:
    total = sum(sum(mine.values()) for mine in counted.values())
    where = f", the first of {run.repeats} repeats" if run.repeats > 1 else ""
    return f"{total:,} answers by reason{where}; a job that declines several slots in a row for one reason counts once"


def _comparison_note(run: RunFile) -> str:
    unfinished = [r for r in run.runs if r.state not in ("succeeded", "running")]
    lost = "".join(
        f" {r.policy}, repeat {r.repeat + 1}: {r.state}{': ' + r.note if r.note else ''}." for r in unfinished
    )
    if run.repeats < stats.REPEATS_LEAST:
        few = f"{_count(run.repeats, 'repeat')}: no intervals and no tests below {stats.REPEATS_LEAST}."
        return f"{few} Below a value: its difference to the first policy.{lost}"
    return (
        f"Means of {run.repeats} repeats with their 95% intervals (Student's t), and the mean difference to the first "
        "policy, paired by repeat. * marks a difference that is not zero, green the best policy of a row: both are "
        "trusted, and all comparisons of the table together say something false in at most 5% of tables (Holm)."
        + lost
    )


def _footer(run: RunFile) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in run.versions.items())
    return (
        f"Made by schedbed. {versions}. The tables behind this page are the Parquet files beside it; "
        "timeline.json opens in ui.perfetto.dev."
    )


# The parts of the result files that are made from the tables of one policy in one repeat.
#
# The tables of a run are read once for all its parts. In a large simulation, the runs are shared between
# the host's cores, and so are the parts of a single run.

Step = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of all runs' result files. `data` and `facts` are empty without a report.

    `measures` are in the order of `summary.in_order`; `facts` are of each policy's first repeat, if there are
    several.
    """

    measures: list[summary.Measures]
    data: dict[str, Any]
    facts: Mapping[str, RunFacts]


def make_parts(out: Path, run: RunFile, recorded: Recorded, *, with_report: bool) -> RunParts:
    """Write timeline.json, and return the parts of the other result files. Raises BadInput."""
    frame = report_data.frame(run, recorded) if with_report else None
    shown = report_data.first_runs(run) if with_report else []
    pieces, referee = timeline.pieces(out, run, recorded), Referee(run)
    steps: dict[Key, dict[str, Step]] = {}  # Those that take long come first, so that cores end together.
    for piece in pieces:
        key = (piece.policy, piece.repeat)
        steps[key] = {
            "timeline": partial(timeline.write_piece, piece, run, recorded),
            "waits": partial(_measured, metrics.measure_waits, recorded, key),
        }
        if frame is not None and key in shown:
            steps[key]["drawn"] = partial(_drawn, frame, run, recorded, key)
        steps[key]["others"] = partial(_measured, metrics.measure_others, recorded, key)
        steps[key]["fidelity"] = partial(_fidelity, run, recorded, referee, key)
    try:
        made = _do_all(recorded, steps, cores_for(run))
        timeline.join(out, pieces)
    finally:
        for piece in pieces:
            with suppress(FileNotFoundError):
                piece.path.unlink()
    drawn = [made[key]["drawn"] for key in shown]
    of_records = [made[record.policy, record.repeat] for record in summary.in_order(run)]
    return RunParts(
        measures=[(metrics.joined(each["waits"], each["others"]), each["fidelity"]) for each in of_records],
        data={} if frame is None else report_data.joined(frame, [data for data, _ in drawn]),
        facts={key[0]: RunFacts(**facts) for key, (_, facts) in zip(shown, drawn, strict=True) if facts},
    )


def _do_all(
    recorded: Recorded, steps: Mapping[Key, Mapping[str, Step]], cores: int
) -> dict[Key, dict[str, Any]]:
    """Do each run's steps on several cores, a run at a time on each.

    If the others would wait for a last run, its steps are done singly, unless it has very many decisions, for
    which each step needs much memory.
    """
    largest_first = sorted(steps, key=lambda key: -sum(recorded.count(table, *key) for table in VIEWED))
    is_alone = len(steps) % cores == 1 and not recorded.has_many_decisions(*largest_first[-1])
    singly = [largest_first.pop()] if is_alone else []
    for key in singly:
        recorded.measured(*key)  # The processes of all steps use these tables.
    whole = [partial(_in_turn, steps[key]) for key in largest_first]
    found = iter(share([*whole, *(step for key in singly for step in steps[key].values())], cores))
    made: dict[Key, dict[str, Any]] = {key: next(found) for key in largest_first}
    return made | {key: {name: next(found) for name in steps[key]} for key in singly}


def _in_turn(steps: Mapping[str, Step]) -> dict[str, Any]:
    return {name: step() for name, step in steps.items()}


def _measured(measure: Callable[[RunTables], Any], recorded: Recorded, key: Key) -> Any:
    return measure(recorded.measured(*key))


def _fidelity(run: RunFile, recorded: Recorded, referee: Referee, key: Key) -> dict[str, Any]:
    record = run.run(*key)
    assert record is not None
    return summary.fidelity_of(run, record, recorded.measured(*key), referee)


def _drawn(frame: report_data.Frame, run: RunFile, recorded: Recorded, key: Key) -> tuple[Any, Any]:
    """Return a policy's plots, and facts that explain differences, if any."""
    data = report_data.of_policy(frame, run, recorded, *key)
    return data, asdict(RunFacts.of(recorded.tables(*key))) if frame.policies > 1 else {}
