"""Hold schedbed against recorded runs of real schedulers, for docs/agrees.md.

    python -m tests.pages.agrees [--live] [ROW ...]

The recordings are in `../shared/traces`. Then `python -m tests.bench.pages` writes the tables. A simulated row is the
same on any host; `--live` measures the rows that have a live run, in real time, so it needs a quiet host. ROW is the
beginning of a row's name.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

import schedbed
from tests.bench.figures import ROOT, host_line, today
from tests.pages import yarn_rows
from tests.pages.agreement import Run, agreement, mean_completion, mean_run
from tests.pages.yarn_rows import YarnRow

RECORDINGS = ROOT.parent / "shared" / "traces"
KEPT = ROOT / "docs" / "results" / "agrees"
OWN = ROOT / "examples" / "recorded"
SPARK, SLURM, YARN, MAPREDUCE = "spark-standalone", "slurm", "hadoop-yarn", "hadoop-mapreduce-yarn"
RANDOM = "slurm-random"
FOLDERS = {RANDOM: OWN / "slurm"}
"""The folders of recordings that are a part of the repository; the others are beside it."""
SYSTEMS = {
    RANDOM: "Slurm 22.05.8, random jobs",
    SLURM: "Slurm 22.05.8",
    SPARK: "Spark 3.5.5",
    YARN: "YARN 3.4.1, bare",
    MAPREDUCE: "MapReduce 3.4.1 on YARN",
}


class Row(NamedTuple):
    """A workload under a setting of a real scheduler, and what is simulated for it.

    `rule`: what the row tries. `repeats`: the repeats recorded on a quiet host, or () for all. `profile`: the framework
    of the second simulation, as a scenario has it. `most`, `most_with`: the largest mean error of a job that a test
    allows, by the policy alone and with the profile; None where the system's rules are not there yet.
    """

    system: str
    workload: str
    setting: str
    rule: str
    policy: Any
    sets: tuple[str, ...] = ()
    repeats: tuple[int, ...] = ()
    profile: str = "none"
    most: float | None = None
    most_with: float | None = None
    scenario: str = ""
    live: bool = False

    @property
    def name(self) -> str:
        return f"{self.system}/{self.workload}-{self.setting}"

    @property
    def path(self) -> Path:
        if self.system == MAPREDUCE:
            return folder_of(self.system) / "completions.csv"
        return folder_of(self.system) / f"{self.scenario or self.workload}.schedbed.yaml"


def folder_of(system: str) -> Path:
    """Return the folder with the recordings of a system."""
    return FOLDERS.get(system, RECORDINGS / system)


def _random(workload: str, setting: str, rule: str, policy: str, *, live: bool = False) -> Row:
    return Row(
        RANDOM, workload, setting, rule, policy, profile="slurm", most=0.05, most_with=0.025, live=live
    )


def _slurm(workload: str, setting: str, rule: str, policy: str, *sets: str, live: bool = False) -> Row:
    return Row(
        SLURM, workload, setting, rule, policy, sets, profile="slurm", most=0.05, most_with=0.025, live=live
    )


def _spark(
    workload: str,
    setting: str,
    rule: str,
    policy: str,
    *sets: str,
    most: float,
    repeats: tuple[int, ...] = (),
    live: bool = False,
) -> Row:
    return Row(SPARK, workload, setting, rule, policy, sets, repeats, "spark", most, most / 2, live=live)


def _yarn(row: YarnRow) -> Row:
    """Return a row of YARN, simulated with the protocol of its setting only."""
    return Row(
        YARN,
        row.workload,
        row.setting,
        row.rule,
        row.policy,
        row.sets,
        profile=_bare(row.setting),
        most_with=row.most,
        scenario=row.scenario,
        live=(row.workload, row.setting) in yarn_rows.LIVE,
    )


def _bare(setting: str) -> str:
    """Return the framework for a setting such as `fifo-once-oob` (see the README of the recordings)."""
    words = setting.split("-")
    said = [] if "oob" in words else ["out_of_band: false"]
    said += ["late_asks: false"] if "once" in words else []
    said += ["am_heartbeat: 200ms"] if "am200" in words else []
    return f"{{yarn-bare: {{{', '.join(said)}}}}}" if said else "yarn-bare"


def _mapreduce(
    run: str, setting: str, rule: str, most: float, *, containers: int = 3, slowstart: float = 0.05
) -> Row:
    """Return a row of the MapReduce jobs of a run, with the recorded durations of their tasks."""
    policy = {"fifo": "yarn-fifo", "fair": "yarn-fair", "capacity": yarn_rows.ALONE}[setting]
    node = {"cores": containers, "memory": f"{containers}GiB", "map_slots": containers - 1, "reduce_slots": 1}
    sets = tuple(f"cluster.node.{key}={value}" for key, value in node.items())
    profile = f"{{yarn: {{slowstart: {slowstart}}}}}"
    return Row(MAPREDUCE, run, setting, rule, policy, sets, profile=profile, most_with=most)


def _histories(run: str, folder: str) -> dict[str, Any]:
    """Return the scenario with the jobs of a run, whose histories are put into one file of the folder."""
    rows = pd.read_csv(RECORDINGS / MAPREDUCE / "completions.csv")
    paths = [
        RECORDINGS / MAPREDUCE / f"{file}.json.jhist.gz" for file in rows.loc[rows["run"] == run, "file"]
    ]
    trace = Path(folder) / "trace.jhist"
    trace.write_bytes(b"".join(gzip.decompress(path.read_bytes()) for path in paths))
    return {
        "name": run,
        "repeats": 5,  # Who is first at a node's heartbeat is a matter of tenths of a second.
        "cluster": {"heartbeat": "1s", "nodes": [{"count": 2, "rack": "r1"}, {"count": 1, "rack": "r2"}]},
        "blocks": {"replication": 1},
        "workload": {"trace": str(trace)},
        "simulate": {"costs": "trace", "contention": False},
        "profiles": {"store": "none"},
    }


EASY = "slurm-backfill:reservations=1,interval=1s"
ALL = "slurm-backfill:interval=1s"
ONE_NODE = ("cluster.nodes=1", "cluster.node.map_slots=12", "cluster.node.cores=12")
FAIR = "spark-fair:pool_by=user"
ROWS = (
    _slurm("exact", "fcfs", "sched/builtin", "slurm-fcfs"),
    _slurm("exact", "easy", "one reservation", EASY),
    _slurm("exact", "cons", "a reservation for each job", ALL),
    _slurm("exact", "one", "one reservation, one node", EASY, *ONE_NODE),
    _slurm("over", "fcfs", "sched/builtin", "slurm-fcfs", live=True),
    _slurm("over", "easy", "one reservation", EASY, live=True),
    _slurm("over", "cons", "a reservation for each job", ALL, live=True),
    _slurm("over", "one", "one reservation, one node", EASY, *ONE_NODE),
    _random("random1", "easy", "one reservation", f"{EASY},epoch=12.817s", live=True),
    _random("random1", "cons", "a reservation for each job", f"{ALL},epoch=13.883s", live=True),
    _random("random2", "fcfs", "sched/builtin", "slurm-fcfs"),
    _random("random2", "easy", "one reservation", f"{EASY},epoch=14.873s"),
    _random("random2", "cons", "a reservation for each job", f"{ALL},epoch=15.815s"),
    _random("random3", "easy", "one reservation", f"{EASY},epoch=17.853s"),
    _random("random3", "cons", "a reservation for each job", f"{ALL},epoch=16.806s"),
    _spark("w1", "fifo", "FIFO", "spark-fifo", most=0.05, repeats=(3,), live=True),
    _spark(
        "w1", "fair", "FAIR, a pool for each user", f"{FAIR},wait=0s", most=0.05, repeats=(2, 3), live=True
    ),
    _spark("w3", "wait0", "locality wait of 0 s", f"{FAIR},wait=0s", most=0.05, live=True),
    _spark("w3", "wait3", "locality wait of 3 s", f"{FAIR},wait=3s", most=0.1, live=True),
    _spark("w3", "wait10", "locality wait of 10 s", f"{FAIR},wait=10s", most=0.1, live=True),
    _spark("w3", "legacy3", "the same before Spark 3.1, 3 s", f"{FAIR},wait=3s,reset=launch", most=0.13),
    _spark(
        "w3",
        "legacy10",
        "the same before Spark 3.1, 10 s",
        f"{FAIR},wait=10s,reset=launch",
        most=0.1,
        repeats=(3,),
    ),
    _spark("w4", "off", "FIFO, a slow node", "spark-fifo", most=0.05, repeats=(3,)),
    _spark("w4", "on", "speculation", "spark-fifo", "speculation=spark", most=0.1),
    *(_yarn(row) for row in yarn_rows.rows()),
    _mapreduce("ss0.05-1", "capacity", "CapacityScheduler, slow start 0.05", 0.08, containers=2),
    _mapreduce("ss1.0-1", "capacity", "the same, slow start 1", 0.08, containers=2, slowstart=1.0),
    _mapreduce("ss1.0-2", "capacity", "the same, slow start 1", 0.08, containers=2, slowstart=1.0),
    _mapreduce("fifo-1", "fifo", "FifoScheduler, three jobs", 0.15),
    _mapreduce("fifo-2", "fifo", "FifoScheduler, three jobs", 0.08),
    _mapreduce("fair-1", "fair", "FairScheduler, three jobs in two queues", 0.08),
    _mapreduce("wc1", "fair", "FairScheduler, word count", 0.08),
    _mapreduce("spec", "fair", "FairScheduler, a map with a copy", 0.15),
    _mapreduce("ramp", "fair", "FairScheduler, six reduces", 0.15),
    _mapreduce("wc1-cap", "capacity", "CapacityScheduler, word count", 0.1),
    _mapreduce("wc2-cap", "capacity", "CapacityScheduler, two replicas", 0.08),
    _mapreduce("ramp-cap", "capacity", "CapacityScheduler, six reduces", 0.15),
    _mapreduce("fail", "fifo", "FifoScheduler, three attempts fail", 0.08),
    _mapreduce("uber", "fifo", "FifoScheduler, tasks inside the ApplicationMaster", 0.15),
    _mapreduce("maponly", "fifo", "FifoScheduler, no reduces", 0.08),
)
PAIRS = (
    (SLURM, "exact", "fcfs", "easy"),
    (SLURM, "exact", "easy", "cons"),
    (SLURM, "over", "fcfs", "easy"),
    (SLURM, "over", "easy", "cons"),
    (RANDOM, "random1", "easy", "cons"),
    (RANDOM, "random2", "fcfs", "easy"),
    (RANDOM, "random2", "easy", "cons"),
    (RANDOM, "random3", "easy", "cons"),
    (SPARK, "w1", "fifo", "fair"),
    (SPARK, "w3", "wait0", "wait3"),
    (SPARK, "w3", "wait0", "wait10"),
    (SPARK, "w3", "wait10", "legacy10"),
    (SPARK, "w4", "off", "on"),
    *((YARN, *pair) for pair in yarn_rows.PAIRS),
)
"""Pairs of settings of one workload, of which one is better: system, workload, first and second setting."""


@cache
def _completions(system: str) -> pd.DataFrame:
    path = folder_of(system) / "completions.csv"
    rows = pd.read_csv(path if path.exists() else path.with_suffix(".csv.gz"))
    names = {
        "run": "workload",
        "scheduler": "setting",
        "jhist_submit_s": "submit_s",
        "jhist_finish_s": "finish_s",
    }
    return rows.rename(columns={"policy": "setting"} if system != MAPREDUCE else names)


def recorded(row: Row) -> tuple[Run, float | None]:
    """Return the mean recorded run of a row, and the share of node-local maps where it was recorded."""
    rows = _completions(row.system)
    mine = rows[(rows["workload"] == row.workload) & (rows["setting"] == row.setting)]
    if row.repeats:
        mine = mine[mine["repeat"].isin(row.repeats)]
    repeats = mine.groupby("repeat" if row.system != MAPREDUCE else "workload")
    runs = [run_of(repeat, "submit_s", "finish_s", "job") for _, repeat in repeats]
    if row.system == YARN:
        paths = (RECORDINGS / YARN / "tasks").glob(f"{row.workload}-{row.setting}-*.csv.gz")
        tasks = pd.concat([pd.read_csv(path) for path in sorted(paths)])["locality"].fillna("none")
        local = None if (tasks == "none").all() else float((tasks == "node").mean())
    elif "node_local_percent" in mine and mine["node_local_percent"].notna().all():
        local = float(mine["node_local_percent"].mean()) / 100
    else:
        local = None
    return mean_run(runs), local


def run_of(jobs: pd.DataFrame, submit: str, finish: str, name: str) -> Run:
    """Return {job: (submit, finish)} of a table."""
    times = zip(jobs[submit].astype(float), jobs[finish].astype(float), strict=True)
    return dict(zip(jobs[name].astype(str), times, strict=True))


def measured(row: Row, framework: str, machines: Literal["sim", "process"] = "sim") -> dict[str, Any]:
    """Run a row's scenario, and return its errors: see `tests.pages.agreement`."""
    profile = [f"framework={framework}"] if machines == "sim" or row.system == YARN else []
    with tempfile.TemporaryDirectory() as folder:
        scenario = _histories(row.workload, folder) if row.system == MAPREDUCE else row.path
        sets = [*row.sets, *profile]
        result: Any = schedbed.run(scenario, machines=machines, policies=[row.policy], sets=sets)
    real, local = recorded(row)
    repeats = result.jobs.groupby("repeat", observed=True)
    made = mean_run([run_of(jobs, "submit", "finish", "name") for _, jobs in repeats])
    found = agreement(real, made)
    maps = result.attempts[result.attempts["kind"].astype(str) == "map"]
    return {
        **{
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in found._asdict().items()
        },
        "mean_s": round(mean_completion(made), 2),
        "recorded_mean_s": round(mean_completion(real), 2),
        "node_local": None
        if local is None
        else round(float((maps["locality"].astype(str) == "node").mean()), 3),
        "recorded_node_local": None if local is None else round(local, 3),
    }


def simulated(row: Row) -> dict[str, Any]:
    """Return the errors of a row by the policy alone, and with its profile. YARN is nothing without its protocol."""
    alone = {} if row.system == YARN else {"alone": measured(row, "none")}
    return alone | ({"with": measured(row, row.profile)} if row.profile != "none" else {})


def load(name: str, kept: Path = KEPT) -> dict[str, Any]:
    path = kept / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}}


def tables(kept: Path = KEPT) -> dict[str, str]:
    """Return the tables of docs/agrees.md, as Markdown."""
    made, live = load("simulated", kept)["rows"], load("live", kept)
    seen = f"Live on {live['date']}: {live['host']}." if "host" in live else "No live run is kept."
    return {"errors": _errors(made, live["rows"]), "effects": _effects(made), "live": seen}


def _errors(made: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    lines = [
        "| system | workload | rule | policy | error of a job, mean (worst) | with the profile | of the mean | of the "
        "makespan | order of ends | node-local, recorded / here | live |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        found = made[row.name]
        alone, profile = found.get("alone"), found.get("with")
        best = alone or profile
        policy = row.policy if isinstance(row.policy, str) else next(iter(row.policy))
        local = "-"
        if best["node_local"] is not None:
            local = f"{best['recorded_node_local']:.0%} / {best['node_local']:.0%}"
        cells = (
            SYSTEMS[row.system],
            f"{row.workload}, {row.setting}",
            row.rule,
            f"`{policy}`",
            *(
                "-" if each is None else f"{each['error']:.1%} ({each['worst']:+.1%})"
                for each in (alone, profile)
            ),
            f"{best['mean_completion']:+.1%}",
            f"{best['makespan']:+.1%}",
            f"{best['order']:.2f}",
            local,
            f"{live[row.name]['error']:.1%}" if row.name in live else "-",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def effects(made: Mapping[str, Any], pair: tuple[str, str, str, str]) -> tuple[float, float]:
    """Return how much longer the mean completion is under the second setting of a pair, recorded and simulated."""
    system, workload, first, second = pair
    both = (made[f"{system}/{workload}-{each}"] for each in (first, second))
    one, two = (found.get("alone") or found["with"] for found in both)
    return two["recorded_mean_s"] / one["recorded_mean_s"] - 1, two["mean_s"] / one["mean_s"] - 1


def _effects(made: Mapping[str, Any]) -> str:
    lines = [
        "| system | workload | pair | recorded, mean completion | here | winner |",
        "|---|---|---|---|---|---|",
    ]
    for pair in PAIRS:
        system, workload, first, second = pair
        real, here = effects(made, pair)
        winner = "the same" if real * here > 0 or abs(real) < 0.01 else "**another**"
        lines.append(
            f"| {SYSTEMS[system]} | {workload} | `{second}` against `{first}` | {real:+.1%} | {here:+.1%} | {winner} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="the beginnings of names of rows, such as slurm/over")
    parser.add_argument("--live", action="store_true", help="run the rows that have a live run, in real time")
    given = parser.parse_args(arguments)
    KEPT.mkdir(parents=True, exist_ok=True)
    name = "live" if given.live else "simulated"
    kept = load(name)
    for row in ROWS:
        if (given.live and not row.live) or not row.name.startswith(tuple(given.rows) or ""):
            continue
        framework = row.profile if row.system == YARN else "none"
        kept["rows"][row.name] = measured(row, framework, "process") if given.live else simulated(row)
        print(row.name, kept["rows"][row.name], flush=True)
    if given.live:
        kept |= {"host": host_line(), "date": today()}
    (KEPT / f"{name}.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
