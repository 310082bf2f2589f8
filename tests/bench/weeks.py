"""Measure a JobTracker that is up for weeks: its CPU time, memory, journal, and restart.

    python -m tests.bench.weeks [--events 10000000] [--jobs 100000] [--no-snapshots]

The benchmark runs the live JobTracker with its journal on disk, without Ray and without nodes. Heartbeats of
six nodes are generated, the NameNode agrees to everything, and the rows are fetched as by the driver of a
run. Half of the events belong to jobs (two maps with an input of their own each), the others are idle
heartbeats. Then the process dies, and a new one continues from the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.cluster.clock import RunClock
from schedbed.cluster.doors import make_stub
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.messages import AttemptReport, Launch
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler import journal
from schedbed.scheduler.driver import Plan
from schedbed.scheduler.jobtracker import JobTracker
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import BlockRange, Demand, JobSpec, Split
from tests.bench.figures import ROOT, Figure, parser, publish, say

NODES = 6
POLL_EVERY = 200  # heartbeats
DEMAND = Demand(memory_bytes=2**28)


def make_tracker(folder: Path, policy: str) -> JobTracker:
    """Return the JobTracker of `folder`, recovered from its journal if there is one."""
    nodes = tuple(
        NodeSpec(
            node=f"n{number}",
            rack="r1",
            cores=2,
            core_speed=1.0,
            memory_bytes=2**32,
            disk_bps=1e8,
            network_bps=1e8,
            map_slots=2,
            reduce_slots=1,
        )
        for number in range(1, NODES + 1)
    )

    async def agree(method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return [] if method == "take_replica_changes" else None

    return JobTracker(
        ClusterSpec(nodes=nodes, heartbeat_s=0.5),
        lambda: build_policy(policy),
        make_stub(NameNodeDoor, agree),
        epoch_s=RunClock.start().epoch_s if not (folder / "epoch").exists() else _epoch_s(folder),
        seed=1,
        journal=folder / "jobtracker.sqlite",
    )


def _epoch_s(folder: Path) -> float:
    return float((folder / "epoch").read_text())


def made_job(number: int) -> Plan:
    """Return a plan with job `number`, whose two maps read a file of their own."""
    name, file = f"job_{number:06d}", f"/in/made_{number}"
    blocks = tuple(
        BlockRange(block=f"b{number}_{index}", offset=index * 1000, length=1000, nodes=("n1", "n2", "n3"))
        for index in range(2)
    )
    splits = tuple(
        Split(index=index, file=file, offset=each.offset, length=1000, block=each.block, hosts=each.nodes)
        for index, each in enumerate(blocks)
    )
    spec = JobSpec(
        job=name, name="made", app="grep", user="u", splits=splits, map_demand=DEMAND, reduce_demand=DEMAND
    )
    return Plan(jobs=(spec,), files={file: blocks})


class Life:
    """A JobTracker from its start to its death, with six simulated nodes."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder = folder
        (folder / "epoch").write_text(str(RunClock.start().epoch_s))
        self.tracker = make_tracker(folder, policy)
        self.nodes = {node.node: Tracker(node.node, 1) for node in self.tracker._cluster.nodes}
        self.cursors: dict[str, int] = {}
        self.journal_bytes = 0
        self.heartbeats = 0

    @property
    def events(self) -> int:
        """Return the number of events in the journal so far."""
        return self.tracker._journal._number

    async def heartbeat(self, name: str) -> None:
        """Send a heartbeat of the node `name`.

        Report what the answer launches as succeeded in the next heartbeat.
        """
        node = self.nodes[name]
        answer = await self.tracker.heartbeat(node.heartbeat())
        node.on_reply(answer.reply)
        now_s = time.time() - _epoch_s(self.folder)
        for action in answer.reply.actions:
            if isinstance(action, Launch):
                node.on_ended(
                    AttemptReport(attempt=action.attempt, state="succeeded", start_s=now_s, end_s=now_s)
                )
        self.heartbeats += 1
        if self.heartbeats % POLL_EVERY == 0:
            await asyncio.sleep(0)
            await self.fetch()
            held = sum(path.stat().st_size for path in self.folder.glob("jobtracker.sqlite*"))
            self.journal_bytes = max(self.journal_bytes, held)

    async def fetch(self) -> bool:
        """Fetch new rows, as the driver of a run does. Return whether all jobs have ended."""
        answer = await self.tracker.poll(self.cursors)
        for table, fetched in answer["rows"].items():
            self.cursors[table] = self.cursors.get(table, 0) + len(fetched)
        return answer["ended"]

    async def live(self, events: int, jobs: int) -> None:
        """Send heartbeats until the journal has `events` events, and submit `jobs` jobs evenly among them."""
        await self.tracker.start(Plan(jobs=(), files={}))
        for node in self.tracker._cluster.nodes:
            await self.tracker.register(node, 1)
        done = 0
        while self.events < events or done < jobs:
            if done < jobs and self.events * jobs >= done * events:
                await self.tracker.submit(made_job(done))
                done += 1
            for name in self.nodes:
                await self.heartbeat(name)
        while not await self.fetch():
            for name in self.nodes:
                await self.heartbeat(name)
            await asyncio.sleep(0)


def memory_mib(key: str) -> float:
    """Return a memory figure of this process in MiB: VmRSS (present) or VmHWM (peak)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def live(folder: Path, asked: Any) -> None:
    """Run a JobTracker with the numbers of events and jobs in `asked`, print what that took, and die."""
    before_mib = memory_mib("VmRSS")
    life, begun_s = Life(folder, asked.policy), time.process_time()
    asyncio.run(life.live(asked.events, asked.jobs))
    answer = {
        "events": life.events,
        "jobs": life.cursors["jobs"],
        "cpu_s": time.process_time() - begun_s,
        "before_mib": before_mib,
        "mib": memory_mib("VmHWM"),
        "journal_mib": life.journal_bytes / 2**20,
    }
    print(json.dumps(answer), flush=True)
    os._exit(9)


def restart(folder: Path, asked: Any) -> None:
    """Restore the JobTracker from its journal, and print how long that took."""
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    tracker = make_tracker(folder, asked.policy)
    took_s, cpu_s = time.monotonic() - begun_s, time.process_time() - begun_cpu_s
    assert tracker._failure is None, tracker._failure
    alive = sum(node.alive for node in tracker._driver.ledger.nodes.values())
    assert alive == NODES and tracker._driver.all_ended()
    print(json.dumps({"seconds": took_s, "cpu_s": cpu_s, "jobs": len(tracker._driver.submit_times_s)}))


def child(what: str, folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run `live` or `restart` in a new process, and return the JSON that it prints."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.weeks",
        *arguments,
        "--child",
        what,
        "--folder",
        str(folder),
    ]
    ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not ran.stdout:
        raise RuntimeError(ran.stderr[-2000:])
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--events", type=int, default=10_000_000)
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--policy", default="fair")
    options.add_argument("--no-snapshots", action="store_true", help="as it was before there were any")
    options.add_argument("--child", choices=["live", "restart"])
    options.add_argument("--folder", type=Path)
    asked = options.parse_args()
    if asked.no_snapshots:
        journal.SNAPSHOT_BYTES = 1 << 60
    if asked.child:
        {"live": live, "restart": restart}[asked.child](asked.folder, asked)
        return
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        lived = child("live", Path(name), sys.argv[1:])
        say(f"lived: {lived}")
        restarts = [child("restart", Path(name), sys.argv[1:]) for _ in range(asked.repeats)]
    about = f"{lived['events']:,} events, {lived['jobs']:,} jobs"
    figures = [
        Figure(
            name=f"restart after {about}", values=[each["seconds"] for each in restarts], unit="s", high=2.0
        ),
        Figure(
            name="- its CPU time, which a busy host does not lengthen",
            values=[each["cpu_s"] for each in restarts],
            unit="s",
        ),
        Figure(name="- journal on disk at most", values=[lived["journal_mib"]], unit="MiB", high=61.0),
        Figure(name="- JobTracker's memory at most", values=[lived["mib"]], unit="MiB", high=238.0),
        Figure(name="- of that before its first event", values=[lived["before_mib"]], unit="MiB"),
        Figure(
            name="- CPU time of an event, all included",
            values=[1e6 * lived["cpu_s"] / lived["events"]],
            unit="us",
        ),
    ]
    publish("weeks", f"A JobTracker up for weeks ({asked.policy})", figures, asked.out)


if __name__ == "__main__":
    main()
