"""Table 3: the errors with which the policy CSLA predicts a node's load, without and with stress tasks.

Stress tasks keep a node's CPU or disk busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.lakshmi2019.two_jobs import cluster, job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES = {1: (), 2: ("cpu",), 3: ("io",), 4: ("cpu", "io")}
STRESS_S = 400
MEASURES = ("mae", "rmse")
RESOURCES = ("cpu", "io")


def measure(bench: Bench) -> Measured:
    """Run jobs with different stress tasks on every node, and return the errors of CSLA's load predictions.

    The policy CSLA compares its predictions with later loads and reports the errors. The value `ratio` is the
    root mean square error divided by the mean absolute error, which is 1 if all errors are equally large.
    """
    found: dict[str, list[float]] = {
        f"{r}_{m}_{case}": [] for case in CASES for r in RESOURCES for m in (*MEASURES, "less", "ratio")
    }
    for case, stress in CASES.items():
        finished = bench.run(f"table3-{case}", scenario(stress, live=bench.live))
        for report in reports(finished):
            for resource in RESOURCES:
                for name in MEASURES:
                    found[f"{resource}_{name}_{case}"].append(report[resource][name])
                less = report[resource]["last_mae"] - report[resource]["mae"]
                found[f"{resource}_less_{case}"].append(less)
                found[f"{resource}_ratio_{case}"].append(report[resource]["rmse"] / report[resource]["mae"])
    growth = {
        f"{resource}_grows": [
            stressed - alone
            for alone, stressed in zip(found[f"{resource}_mae_1"], found[f"{resource}_mae_4"], strict=True)
        ]
        for resource in RESOURCES
    }
    return Measured(values=found | growth)


def reports(finished: FinishedRun) -> list[Mapping[str, Any]]:
    """Return the report of the policy CSLA about its load predictions, one dictionary per repeat.

    CSLA makes the report at the end of the run.
    """
    return [
        finished.findings(finished.policies[0], repeat)["predictor"] for repeat in range(finished.run.repeats)
    ]


def scenario(
    stress: tuple[str, ...],
    *,
    live: bool,
    turns_s: int = 0,
    apps: Sequence[str] = ("wc", "sort"),
    heartbeat_s: int | None = None,
) -> dict[str, Any]:
    """Return a scenario in which the applications `apps` run twice, together with stress tasks.

    `stress` lists the kinds of stress tasks (`cpu`, `io`); nodes have an additional slot for each kind. With
    `turns_s`, stress tasks run for this number of seconds and pause for the same time. `heartbeat_s` is the
    heartbeat interval, with which nodes also report their load.
    """
    machines = cluster(live=live)
    if heartbeat_s is not None:
        machines["heartbeat"] = f"{heartbeat_s}s"
    machines["node"] |= {"map_slots": machines["node"]["map_slots"] + len(stress)}
    lasts_s = turns_s or STRESS_S
    jobs = [
        {
            "name": f"stress-{kind}",
            "app": "synthetic",
            "queue": "stress",
            "user": kind,
            "maps": machines["nodes"],
            "map": _stress(kind, lasts_s),
            "submit": f"{begins_s}s",
        }
        for kind in stress
        for begins_s in range(0, STRESS_S, 2 * lasts_s)
    ]
    jobs += [job(app, 2, "default", 10 + 150 * turn) for turn in range(2) for app in apps]
    return {
        "scale": 0.05 if live else 1.0,
        "cluster": machines,
        "blocks": {"size": "64MiB", "replication": 1},
        "workload": {"jobs": jobs},
        "policies": ["csla"],
    }


def _stress(kind: str, lasts_s: int) -> dict[str, Any]:
    """Return the costs of a stress task that keeps a core or half a disk busy for `lasts_s` seconds."""
    return {"cpu": f"{lasts_s}s"} if kind == "cpu" else {"cpu": "1s", "write": f"{50 * lasts_s}MB"}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean absolute errors of the policy CSLA's load predictions for each case of stress.

    There is one panel for CPU and one for I/O.
    """
    axes = figure.subplots(1, len(RESOURCES), sharey=True)
    names = ("none", "CPU", "IO", "CPU, IO")
    for ax, resource in zip(axes, RESOURCES, strict=True):
        keys = [f"{resource}_mae_{case}" for case in CASES]
        beside_paper(ax, names, keys, said, measured)
        ax.set(xlabel="stress", ylabel=f"mean absolute error, {resource.upper()} use [share]")


EXPERIMENT = Experiment(
    name="table3", measure=measure, draw=draw, takes_s={"sim": 25, "process": 400}, repeats=3
)
