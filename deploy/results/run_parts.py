"""The parts of the result files that are made from the tables of one policy in one repeat.

The tables of a run are read once for all its parts. In a large simulation, the runs are shared between the
host's cores, and so are the parts of a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.deploy.results import metrics, summary, timeline
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.page import report_data
from schedbed.deploy.results.page.run_facts import RunFacts
from schedbed.deploy.results.recorded import VIEWED, Key, Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.shared_work import cores_for, share

Step = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of the result files of all runs.

    `measures` are those of each record, in the order of `summary.in_order`. `data` is the result of
    `report_data.build`, and `facts` are those of each policy's first repeat, if there are several policies.
    Both are empty without a report.
    """

    measures: list[summary.Measures]
    data: dict[str, Any]
    facts: Mapping[str, RunFacts]


def make_parts(out: Path, run: RunFile, recorded: Recorded, *, with_report: bool) -> RunParts:
    """Write timeline.json into the folder `out` of a run, and return the parts of the other result files.

    `recorded` reads the tables of the run. Raises BadInput if they are damaged.
    """
    frame = report_data.frame(run, recorded) if with_report else None
    shown = report_data.first_runs(run) if with_report else []
    pieces = timeline.pieces(out, run, recorded)
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
        steps[key]["fidelity"] = partial(_fidelity, run, recorded, key)
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
    """Do the steps of each run, on several cores if `cores` is more than 1. Return the results of each run.

    Each core does all steps of a run at a time. If this would leave the other cores without work for a last
    run, its steps are done singly, by whichever core is free, unless it has very many decisions: each step would
    need much memory.
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


def _fidelity(run: RunFile, recorded: Recorded, key: Key) -> dict[str, Any]:
    record = run.run(*key)
    assert record is not None
    return summary.fidelity_of(run, record, recorded.measured(*key))


def _drawn(frame: report_data.Frame, run: RunFile, recorded: Recorded, key: Key) -> tuple[Any, Any]:
    """Return the data of a policy's plots, and the facts about its run that explain differences, if any."""
    data = report_data.of_policy(frame, run, recorded, *key)
    return data, asdict(RunFacts.of(recorded.tables(*key))) if frame.policies > 1 else {}
