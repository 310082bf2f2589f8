"""Measure what the JobTracker needs on large clusters, and simulate several schedulers on one cluster.

    python -m tests.bench.jobtracker_scale [--repeats 2] [--parts core,state,memory,conflicts,shards] [--out FOLDER]

core: CPU time of a heartbeat in the core, and with the journal, by policy and number of nodes. state: the
journal's bytes, and snapshots, recovery and garbage collection of a full cluster. memory: bytes that the core
holds for a node, a job and a map. conflicts and shards: the model of `shared_slots.py`, which gives the same
figures on every host. Each measurement has its own process; the largest takes 4 GiB of memory. All parts take
about 20 minutes; docs/jobtracker-scale.md shows the tables.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.cluster.spec import BlockSettings
from schedbed.scheduler.assignment import attempt_spec
from schedbed.scheduler.core.snapshots import freeze
from schedbed.tasks.chance import chance
from tests.bench.core_throughput import MAP_SLOTS
from tests.bench.figures import PIVOT, Figure, parser, publish, say
from tests.bench.loaded_core import TASK_S, LoadedCore, Size, add_nodes, make_driver, make_loaded, make_plans
from tests.bench.shared_slots import Case, conflict_probability, schedulers_needed, simulate
from tests.bench.weeks import memory_mib

FAIR_DELAY = "order=fair,locality=delay"
POLICIES = {"fifo": "fifo", "fair": "fair", "fair x delay": FAIR_DELAY}
CLUSTERS = ((100, 100), (1_000, 100), (10_000, 100), (100_000, 100), (100_000, 1_000))
"""Nodes, and jobs at a time."""
KEPT_CLUSTERS = (1_000, 10_000, 100_000)
HEARTBEATS, READ = 4_000, 1_000
SLOTS = 100_000 * MAP_SLOTS
DECISIONS_S = {"0.1 ms": 1e-4, "1 ms": 1e-3, "10 ms": 1e-2, "100 ms": 0.1}
FREE_SHARES = {"10%": 0.1, "1%": 0.01, "0.3%": 0.003}
WARM_S, COUNTED_S = 45.0, 30.0
SHARD_DECISION_S, CREW, JOB_TASKS = 5e-4, 16, 5_000
MEMORY_JOBS = 1_000
Costs = dict[str, tuple[float, str]]
"""Measured values with their units, by column."""


def alone(measure: Callable[..., Any], *given: Any) -> Any:
    """Return what a function returns in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *given).result()


def core_costs(size: Size) -> Costs:
    """Return the costs of heartbeats of a full cluster, with their units."""
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        loaded = make_loaded(size, Path(name))
        loaded.fill()
        gc.collect()
        quiet = loaded.quiet(loaded.core, size.heartbeats)
        busy = loaded.busy(loaded.core, size.heartbeats)
        assert loaded.launched >= 0.98 * size.heartbeats, "too few launches"
        kept_quiet = loaded.quiet(loaded.journaled, size.heartbeats)
        kept_busy = loaded.busy(loaded.journaled, size.heartbeats)
    return {
        "quiet": (statistics.fmean(quiet) * 1e6, "us"),
        "end + launch": (statistics.fmean(busy) * 1e6, "us"),
        "its p99": (statistics.quantiles(busy, n=100)[-1] * 1e6, "us"),
        "quiet, with journal": (statistics.fmean(kept_quiet) * 1e6, "us"),
        "end + launch, with journal": (statistics.fmean(kept_busy) * 1e6, "us"),
    }


def state_costs(size: Size) -> Costs:
    """Return the costs of the journal, of snapshots and of recovery for a full cluster, with their units."""
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        folder = Path(name)
        found, heartbeats = _filled_costs(size, folder)
        gc.collect()
        driver, _ = make_driver(size, folder)
        found["recovery"] = (cpu_s(lambda: driver.recover(0.0)), "s")
        assert driver.ledger.beats == heartbeats
    return found


def _filled_costs(size: Size, folder: Path) -> tuple[Costs, int]:
    """Fill a cluster, keep a snapshot, and write heartbeats to the journal. Return the costs, and the number
    of all heartbeats.
    """
    loaded = make_loaded(size, folder)
    loaded.fill()
    found: Costs = {"message of a launch": (1e6 * message_s(loaded), "us")}
    found["full collection"] = (cpu_s(gc.collect), "s")
    start_s = time.process_time()
    snapshot = freeze(loaded.driver._state())
    found["snapshot made in"] = (time.process_time() - start_s, "s")
    found["snapshot"] = (len(snapshot) / 2**20, "MiB")
    found["memory"] = (memory_mib("VmRSS") / 1024, "GiB")
    kept: Any = loaded.driver._journal
    kept.keep(snapshot)
    for label, send in {"quiet": loaded.quiet, "end": loaded.busy}.items():
        before, written = kept._number, written_bytes()
        send(loaded.journaled, size.heartbeats)
        payload = "SELECT SUM(LENGTH(arguments)) FROM events WHERE number > ?"
        found[f"event, {label}"] = (kept._one(payload, before)[0] / size.heartbeats, "bytes")
        found[f"written, {label}"] = ((written_bytes() - written) / size.heartbeats, "bytes")
    start_s = time.process_time()
    events = len(list(kept.events(kept._number - READ)))
    found["event read in"] = (1e6 * (time.process_time() - start_s) / events, "us")
    kept.close()
    return found, loaded.driver.ledger.beats


def message_s(loaded: LoadedCore) -> float:
    """Return the CPU seconds to make the message that starts an attempt, for the next launches."""
    took: list[float] = []
    driver, settings = loaded.driver, BlockSettings()
    while len(took) < 200:
        loaded.busy(loaded.core, 1)
        for launch in loaded.launches:
            start_s = time.thread_time()
            told = driver.assignment(launch)
            attempt_spec(told, driver.blocks_of(told.split), settings, seed=1).to_json()
            took.append(time.thread_time() - start_s)
    return statistics.fmean(took)


def cpu_s(act: Callable[[], Any]) -> float:
    """Return the CPU seconds that a call takes."""
    start_s = time.process_time()
    act()
    return time.process_time() - start_s


def written_bytes() -> int:
    """Return the bytes that this process has passed to system calls that write."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def held_bytes() -> dict[str, float]:
    """Return the bytes of Python objects that the core holds for a node, a job and a map."""
    size = Size(policy="fair", nodes=1_000, jobs=100, heartbeats=1)
    one_map = Size(policy="fair", nodes=MEMORY_JOBS // MAP_SLOTS // 2, jobs=MEMORY_JOBS, heartbeats=1)
    driver, _ = make_driver(one_map, None)
    tracemalloc.start()
    marks = [_traced()]
    names = add_nodes(driver, one_map)
    marks.append(_traced())
    for plan in make_plans(one_map, names, chance(1, "jobtracker scale")):
        driver.kinds["add"](0.0, plan)
        driver.kinds["submit"](0.0, driver.waiting[0])
    marks.append(_traced())
    before = _traced()
    loaded = make_loaded(size, None)
    after_jobs = _traced()
    loaded.fill()
    after_fill = _traced()
    tracemalloc.stop()
    a_node = (marks[1] - marks[0]) / one_map.nodes
    a_map = (after_jobs - before - size.nodes * a_node) / size.maps
    return {
        "a node": a_node,
        "a job, without its maps": (marks[2] - marks[1]) / one_map.jobs - a_map * one_map.maps / one_map.jobs,
        "a waiting map, with its split": a_map,
        "more for a running map": (after_fill - after_jobs) / loaded.launched,
    }


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def core_figures(repeats: int) -> list[Figure]:
    """Measure the core under each policy on each cluster."""
    figures: list[Figure] = []
    for label, policy in POLICIES.items():
        for nodes, jobs in CLUSTERS:
            size = Size(policy=policy, nodes=nodes, jobs=jobs, heartbeats=HEARTBEATS)
            runs = [alone(core_costs, size) for _ in range(repeats)]
            figures += pivot(f"{label}, {nodes:,} nodes, {jobs:,} jobs", runs)
    return figures


def state_figures(repeats: int) -> list[Figure]:
    """Measure journal, snapshots and recovery on each cluster."""
    figures: list[Figure] = []
    for nodes in KEPT_CLUSTERS:
        size = Size(policy="fair", nodes=nodes, jobs=100, heartbeats=HEARTBEATS)
        figures += pivot(f"{nodes:,} nodes", [alone(state_costs, size) for _ in range(repeats)])
    return figures


def memory_figures(repeats: int) -> list[Figure]:
    """Measure the bytes that the core holds."""
    found = [alone(held_bytes) for _ in range(repeats)]
    return [
        figure
        for name in found[0]
        for figure in pivot(name, [{"held": (each[name], "bytes")} for each in found])
    ]


def pivot(row: str, runs: Sequence[Costs]) -> list[Figure]:
    """Return a row's figures, one for each column, with a value for each run."""
    made = [
        Figure(name=f"{row}{PIVOT}{column}", values=[run[column][0] for run in runs], unit=unit)
        for column, (_, unit) in runs[0].items()
    ]
    say(f"{row}: " + ", ".join(f"{each.name.partition(PIVOT)[2]} {each.measured}" for each in made))
    return made


def conflict_figures(repeats: int) -> list[Figure]:
    """Simulate schedulers that share the slots of 100,000 nodes. `repeats` is not used: nothing varies."""
    del repeats
    figures: list[Figure] = []
    for decision, decision_s in DECISIONS_S.items():
        for share, free_share in FREE_SHARES.items():
            plain = Case(
                slots=SLOTS, free_share=free_share, task_s=TASK_S, schedulers=1, decision_s=decision_s,
                seconds=WARM_S + COUNTED_S, warm_s=WARM_S,
            )  # fmt: skip
            rate, free = plain.launches_per_s, SLOTS * free_share
            crew = schedulers_needed(rate, decision_s, free)
            figures += conflict_row(f"{decision}, {share} free", crew, rate, free, plain)
    return figures


def conflict_row(row: str, crew: int, rate: float, free: float, plain: Case) -> list[Figure]:
    """Simulate one case with `crew` schedulers, and return its row."""
    outcome = simulate(replace(plain, schedulers=crew))
    on_paper = conflict_probability(rate, plain.decision_s, crew, free)
    wasted = outcome.conflicts * plain.decision_s / outcome.seconds
    columns: Costs = {
        "schedulers": (crew, ""),
        "launches": (outcome.launches / outcome.seconds, "/s"),
        "conflicts, formula": (100 * on_paper, "%"),
        "conflicts, simulated": (100 * outcome.conflict_share, "%"),
        "conflicts per launch": (outcome.conflicts_per_launch, ""),
        "wasted": (wasted, "cores"),
    }
    return pivot(row, [columns])


def shard_figures(repeats: int) -> list[Figure]:
    """Simulate one scheduler, shared slots and shards under the same jobs. `repeats` is not used."""
    del repeats
    figures: list[Figure] = []
    for share, free_share in {"10%": 0.1, "2%": 0.02}.items():
        one = Case(
            slots=SLOTS, free_share=free_share, task_s=TASK_S, schedulers=1, decision_s=SHARD_DECISION_S,
            job_tasks=JOB_TASKS, seconds=WARM_S + COUNTED_S, warm_s=WARM_S,
        )  # fmt: skip
        cases = {
            "one scheduler": one,
            f"{CREW} schedulers, shared slots": replace(one, schedulers=CREW),
            f"{CREW} schedulers, a shard each": replace(one, schedulers=CREW, shards=CREW),
            f"{CREW} shards, jobs to the least loaded": replace(
                one, schedulers=CREW, shards=CREW, balanced=True
            ),
        }
        for name, case in cases.items():
            outcome = simulate(case)
            columns: Costs = {
                "wanted": (case.launches_per_s, "/s"),
                "launches": (outcome.launches / outcome.seconds, "/s"),
                "mean wait": (outcome.wait_s / max(1, outcome.launches), "s"),
                "conflicts": (100 * outcome.conflict_share, "%"),
                "waiting beside free slots": (outcome.blocked_s / outcome.seconds, "tasks"),
            }
            figures += pivot(f"{share} free, {name}", [columns])
    return figures


PARTS: dict[str, tuple[str, Callable[[int], list[Figure]]]] = {
    "core": ("CPU time of a heartbeat in the live core", core_figures),
    "state": ("Journal, snapshots and recovery under fair", state_figures),
    "memory": ("Memory that the core holds", memory_figures),
    "conflicts": ("Schedulers that share 400,000 slots, simulated", conflict_figures),
    "shards": ("One scheduler, shared slots and shards, simulated", shard_figures),
}


def main() -> None:
    """Measure or simulate the parts that the options name, and publish a table for each."""
    options = parser(__doc__)
    options.set_defaults(repeats=2)
    options.add_argument("--parts", default=",".join(PARTS), help="only these tables (default: all)")
    asked = options.parse_args()
    for name in asked.parts.split(","):
        title, figures_of = PARTS[name]
        publish(f"jobtracker_{name}", title, figures_of(asked.repeats), asked.out)


if __name__ == "__main__":
    main()
