"""`schedbed validate --drawn N`: run N random scenarios live and simulated, and summarize the differences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.compare import Winner
from schedbed.deploy.studies.validate import NAME as VALIDATED
from schedbed.deploy.studies.validate import hold_against_live
from schedbed.deploy.workspace import result_folder
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.errors import BadInput

NAME, SCENARIO = "drawn.json", "scenario.yaml"
JOB_ERROR_MAX = 0.10  # Bound of the jobs' median absolute error.
WINNER_MIN = 0.90  # Share of scenarios, among those whose live runs separate the best two policies.
POLICIES = ("fifo", "fair")
SCALE = 0.1
HOST_SHARE = 0.5
"""Share of the host's cores that a drawn cluster declares; the testbed itself needs the others."""
BUSY_S = 18.0
"""Real seconds for which the synthetic jobs keep all map slots computing, without I/O."""
APPLICATIONS = ("wordcount", "sort", "grep")
PARAMS = {"grep": {"pattern": "[a-z]*ing"}}
Say = Callable[[str], None]


def draw(seed: int, number: int, host_cores: float) -> dict[str, Any]:
    """Return the random scenario of this number and seed, with the keys of a scenario file.

    The cluster declares half of the host's cores, or less if its nodes have too few for that.
    """
    coin = chance(seed, "drawn", number)
    nodes, map_slots = coin.randint(4, 6), coin.randint(1, 3)
    cores = coin.choice((1, 2, 2))
    core_speed = min(1.0, round(HOST_SHARE * host_cores / (nodes * cores), 3))
    node = {
        "cores": cores,
        "core_speed": core_speed,
        "memory": "768MiB",
        "disk": f"{coin.choice((20, 40, 80))}MB/s",
        "network": f"{coin.choice((50, 100, 200))}Mbit/s",
        "map_slots": map_slots,
        "reduce_slots": coin.randint(1, 2),
    }
    jobs = [_job(coin, index) for index in range(coin.randint(3, 6))]
    _fill(jobs, nodes * min(map_slots, cores) * BUSY_S / SCALE)
    at_s = 0.0
    for job in jobs:
        job["submit"] = f"{at_s:.1f}s"
        at_s += coin.expovariate(len(jobs) / (0.5 * BUSY_S / SCALE))
    return {
        "name": f"drawn-{seed}-{number}",
        "seed": coin.randrange(1000),
        "scale": SCALE,
        "cluster": {"nodes": nodes, "racks": coin.randint(1, 2), "node": node, "heartbeat": "500ms"},
        "blocks": {"size": "64MiB", "replication": coin.randint(1, 3), "placement": "hdfs"},
        "workload": {"jobs": jobs},
        "policies": list(POLICIES),
    }


def _job(coin: Coin, index: int) -> dict[str, Any]:
    user = coin.choice(("ana", "bo", "cleo"))
    if coin.random() < 0.3:
        app = coin.choice(APPLICATIONS)
        kind = "records" if app == "sort" else "text"
        drawn = {"generate": kind, "size": f"{64 * coin.randint(2, 8)}MiB", "seed": index}
        found: dict[str, Any] = {"name": f"{app}{index}", "app": app, "user": user, "input": drawn}
        return found | ({"params": PARAMS[app]} if app in PARAMS else {"reduces": coin.randint(1, 2)})
    cost = {
        "cpu": f"{coin.uniform(4, 30):.1f}s",
        "read": f"{coin.choice((0, 16, 32, 64))}MiB",
        "write": f"{coin.choice((0, 4, 16))}MiB",
    }
    made = {
        "name": f"synthetic{index}",
        "app": "synthetic",
        "user": user,
        "maps": 2 ** coin.randint(1, 5),
        "map": cost,
    }
    if reduces := coin.randint(0, 2):
        made |= {"reduces": reduces, "reduce": {"cpu": f"{coin.uniform(4, 20):.1f}s", "write": "16MiB"}}
    return made


def _fill(jobs: Sequence[dict[str, Any]], slot_s: float) -> None:
    """Scale synthetic jobs, in place, so that the CPU times of all maps sum up to `slot_s` emulated seconds."""
    synthetic = [job for job in jobs if job["app"] == "synthetic"]
    work_s = sum(job["maps"] * float(job["map"]["cpu"][:-1]) for job in synthetic)
    for job in synthetic:
        job["map"]["cpu"] = f"{float(job['map']['cpu'][:-1]) * slot_s / work_s:.1f}s"


@dataclass(frozen=True, slots=True)
class DrawnTotal:
    """The results of all drawn scenarios together.

    `job_error` is the median absolute error of jobs' completion times. Live runs show the better policy in
    `told_apart` scenarios, and the simulation agrees in `same_winner` of these. `left_out` live runs were not
    used, since the host could not provide the declared resources.
    """

    scenarios: int
    judged: int
    jobs: int
    job_error: float | None
    told_apart: int
    same_winner: int
    left_out: int

    @property
    def outside(self) -> list[str]:
        """Return a text for a median error above JOB_ERROR_MAX, and for too few equal winners (WINNER_MIN)."""
        found: list[str] = []
        if self.job_error is None:
            found.append("no scenario has a trusted live run to be judged on")
        elif self.job_error > JOB_ERROR_MAX:
            found.append(f"median error of a job {self.job_error:.1%} (bound {JOB_ERROR_MAX:.0%})")
        if not self.told_apart:
            found.append("no scenario whose live runs tell the best two policies apart")
        elif self.same_winner < WINNER_MIN * self.told_apart:
            found.append(f"same winner in {self.same_winner} of {self.told_apart} (bound {WINNER_MIN:.0%})")
        return found

    def lines(self) -> list[str]:
        """Return the results as lines of text for the terminal."""
        error = "unknown" if self.job_error is None else f"{self.job_error:.1%}"
        return [
            f"{self.judged} of {self.scenarios} scenarios judged; {self.left_out} live runs left out, not trusted",
            f"median absolute error of {self.jobs} completions of jobs: {error} (bound {JOB_ERROR_MAX:.0%})",
            f"same winner in {self.same_winner} of {self.told_apart} scenarios whose live runs tell the best two apart"
            f" (bound {WINNER_MIN:.0%})",
        ]


def together(reports: Sequence[Mapping[str, Any]]) -> DrawnTotal:
    """Return the results of several scenarios together, given the content of their validate.json files."""
    errors = [abs(error) for report in reports for each in report["policies"] for error in _errors(each)]
    answers = [winner["same"] for report in reports if (winner := report["winner"]) and winner["told_apart"]]
    return DrawnTotal(
        scenarios=len(reports),
        judged=sum(1 for report in reports if report["policies"]),
        jobs=len(errors),
        job_error=median(errors) if errors else None,
        told_apart=len(answers),
        same_winner=sum(answers),
        left_out=sum(len(report["left_out"]) for report in reports),
    )


def validate_drawn(
    count: int, seed: int, repeats: int, host_cores: float, options: RunOptions, *, say: Say
) -> DrawnTotal:
    """Run `count` random scenarios live and simulated, and print and write their results.

    The folder gets drawn.json and a subfolder per scenario (its file, `live/`, `sim/`, validate.json,
    output.txt). An interrupted command's scenarios with validate.json are not run again. Raises RunFailed if
    a run failed, which ends the command, or errors are too large, and BadInput if the folder has results of
    other scenarios.
    """
    folder = result_folder(options.out, f"drawn-{seed}", datetime.now(UTC))
    reports: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        values = draw(seed, number, host_cores)
        say(f"\n{values['name']} ({number} of {count}): {_words(values)}")
        reports.append(_report(values, repeats, folder / f"{number:02d}", options))
        for line in _lines(reports[-1]):
            say(line)
    found = together(reports)
    report = {"seed": seed, "repeats": repeats, "host_cores": host_cores, **asdict(found)}
    report |= {"outside": found.outside, "each": [_figures(each) for each in reports]}
    (folder / NAME).write_text(json.dumps(report, indent=1) + "\n")
    say("")
    for line in found.lines():
        say(line)
    say(f"Results: {folder / NAME}")
    if found.outside:
        raise RunFailed(f"the simulator is outside its bounds: {'; '.join(found.outside)}")
    return found


def _report(values: dict[str, Any], repeats: int, folder: Path, options: RunOptions) -> dict[str, Any]:
    """Return a scenario's validate.json, made by running it if missing."""
    asked = yaml.safe_dump({**values, "repeats": repeats}, sort_keys=False)
    made = folder / VALIDATED
    if (folder / SCENARIO).exists() and (folder / SCENARIO).read_text() != asked:
        raise BadInput(
            f"--out {folder.parent}: holds other scenarios, expected this seed's, host's and --repeats'"
        )
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / SCENARIO).write_text(asked)
        with (folder / "output.txt").open("w") as log, redirect_stdout(log), redirect_stderr(log):
            hold_against_live(resolve(values, repeats=repeats), folder, options)
    return json.loads(made.read_text())


def _errors(policy: Mapping[str, Any]) -> list[float]:
    return [pair["error"] for pair in policy["jobs"].values()]


def _figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return errors by policy, and the best policies, from validate.json."""
    return {
        "policies": {
            each["policy"]: {
                "makespan_error": each["makespan_s"]["error"],
                "completion_error": each["completion_s"]["error"],
                "job_error": median(map(abs, errors)) if (errors := _errors(each)) else None,
            }
            for each in report["policies"]
        },
        "winner": report["winner"],
        "left_out": len(report["left_out"]),
    }


def _lines(report: Mapping[str, Any]) -> list[str]:
    figures = _figures(report)
    lines: list[str] = []
    for policy, errors in figures["policies"].items():
        middle = "unknown" if errors["job_error"] is None else f"{errors['job_error']:.1%}"
        lines.append(f"{policy}: makespan {errors['makespan_error']:+.1%}, median error of a job {middle}")
    winner = figures["winner"]
    picked = Winner(winner["live"], winner["simulated"], winner["told_apart"]) if winner else "no winner"
    return [*lines, str(picked)]


def _words(values: dict[str, Any]) -> str:
    cluster, jobs = values["cluster"], values["workload"]["jobs"]
    node = cluster["node"]
    slots = f"{node['map_slots']} map and {node['reduce_slots']} reduce slots"
    return f"{cluster['nodes']} nodes of {slots}, {node['disk']}, {node['network']}; {len(jobs)} jobs"
