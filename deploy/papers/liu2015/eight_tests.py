"""The benchmarks and the eight tests of section 3 as synthetic jobs, and the cluster of Table 2.

A test is a set of jobs that run together. The CPU times of tasks reproduce the paper's measurements: maps of
Pi and Bbp take as long as measured, and maps of TeraGen and ETL use the measured share of a core (Table 1)
while they read and write at the disk's rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun

NODES, CORES = 8, 8
DISK_BPS = 100e6
TERAGEN_BYTES = 2e9  # output of one map
ETL_READ_BYTES, ETL_WRITE_BYTES = 1e9, 1.2e9
"""The paper does not print its block size. Its jobs take about equally long (3.1), unlike with blocks of 128 MB."""
LIVE_NODES, LIVE_CORES = 2, 8
LIVE_SCALE = 0.05

RESERVED_CORES = 1  # FGCS's default
CONTAINERS = "order=fair,locality=delay,admission=containers"
YARN = f"{CONTAINERS}:reserved_cores={RESERVED_CORES}"
CPU_JOBS, IO_JOBS = ("pi", "bbp"), ("teragen", "etl")
SAMPLE_TASKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A test of the paper: a set of benchmark jobs that run together.

    `cpu` and `io` are the names of CPU-bound and I/O-bound jobs. `pattern` is the kind of test in Table 3:
    `balanced`, `io` or `cpu`.
    """

    name: str
    pattern: str
    cpu: tuple[str, ...]
    io: tuple[str, ...]

    @property
    def jobs(self) -> tuple[str, ...]:
        """Return the names of the CPU-bound jobs, followed by those of the I/O-bound jobs."""
        return self.cpu + self.io


MIXES = (
    *(
        Mix(name=f"{cpu}-{io}", pattern="balanced", cpu=(cpu,), io=(io,))
        for cpu in CPU_JOBS
        for io in IO_JOBS
    ),
    *(Mix(name=f"{cpu}-teragen-etl", pattern="io", cpu=(cpu,), io=IO_JOBS) for cpu in CPU_JOBS),
    *(Mix(name=f"pi-bbp-{io}", pattern="cpu", cpu=CPU_JOBS, io=(io,)) for io in IO_JOBS),
)


def job(name: str, maps: int, mix: str = "") -> dict[str, Any]:
    """Return a job of the benchmark `name`, with `maps` maps, as in a scenario file.

    `mix` is the name of one of the paper's tests. The maps of a CPU-bound job take the time that the paper
    measured in this test.
    """
    each = _map(name, mix)
    made: dict[str, Any] = {
        "name": name,
        "app": "synthetic",
        "user": name,
        "maps": maps,
        "map": {**each, "variance": 0.05},
    }
    if name in CPU_JOBS:  # The single reduce has almost no work.
        made |= {"reduces": 1, "reduce": {"cpu": "1s"}}
    return made


def _map(name: str, mix: str) -> dict[str, str]:
    if name in CPU_JOBS:
        said = paper_file.load("liu2015").experiments["tests"].values
        took_s = said[f"{mix or name + '-teragen'}_{name}_yarn_map"].number
        return {"cpu": f"{took_s}s", "write": "1kB"}
    read, written = (0.0, TERAGEN_BYTES) if name == "teragen" else (ETL_READ_BYTES, ETL_WRITE_BYTES)
    demand = paper_file.load("liu2015").experiments["table1"].values[f"{name}_map"].number / 100
    io_s = (read + written) / DISK_BPS  # equation 3
    bytes_ = {"read": f"{round(read)}B"} if read else {}
    return {"cpu": f"{io_s * demand / (1 - demand):.3f}s", **bytes_, "write": f"{round(written)}B"}


def jobs_of(mix: Mix, *, live: bool) -> list[dict[str, Any]]:
    """Return the jobs of a test, with the numbers of maps in Table 3, or a quarter of them if `live`."""
    said = paper_file.load("liu2015").experiments["tests"].values
    part = LIVE_NODES / NODES if live else 1.0
    sizes = {
        **dict.fromkeys(mix.cpu, said[f"{mix.pattern}_cpu_tasks"].number),
        **dict.fromkeys(mix.io, said[f"{mix.pattern}_io_tasks"].number),
    }
    return [job(name, max(1, round(part * size)), mix.name) for name, size in sizes.items()]


def scenario(jobs: Sequence[Mapping[str, Any]], policies: Sequence[Any], *, live: bool) -> dict[str, Any]:
    """Return a scenario of these jobs and policies on eight nodes, each with 8 cores, 24 GB and 10 Gbit/s.

    A live scenario has two nodes with slower cores, and a scale of 1/20, which shortens all times.
    """
    node = {
        "cores": LIVE_CORES if live else CORES,
        "core_speed": 0.08 if live else 1.0,
        "memory": "1GiB" if live else "24GiB",
        "disk": f"{round(DISK_BPS)}B/s",
        "network": "10Gbit/s",
        "map_slots": 24,
        "reduce_slots": 4,
    }
    return {
        "scale": LIVE_SCALE if live else 1.0,
        "cluster": {
            "nodes": LIVE_NODES if live else NODES,
            "heartbeat": "100ms" if live else "1s",
            "node": node,
        },
        "blocks": {"size": "128MB", "replication": 2 if live else 3},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
    }


def samples(bench: Bench, *, live: bool) -> FinishedRun:
    """Run a sample job of each benchmark under the policy FGCS, which measures the CPU demand of its tasks.

    Section 2.3 describes the samples. `live` selects the live or the simulated cluster of `scenario`. Samples
    and later jobs must run on equal hardware, since FGCS converts demands between core speeds, but the CPU
    times of these synthetic jobs are the same on all cores.
    """
    return bench.run("samples", scenario(sample_jobs(), [{"fgcs": {"profiles": "none"}}], live=live))


def sample_jobs() -> list[dict[str, Any]]:
    """Return a job with 16 maps for each benchmark. The jobs are submitted one after the other."""
    return [
        {**job(name, SAMPLE_TASKS), "submit": f"{600 * number}s"}
        for number, name in enumerate(CPU_JOBS + IO_JOBS)
    ]


def demands(finished: FinishedRun) -> Mapping[str, Mapping[str, Any]]:
    """Return the CPU demands that the policy FGCS measured in a run of the sample jobs, by job name.

    Only the first repeat of the run is used.
    """
    return finished.findings(finished.policies[0])["profiles"]["demand"]


def run_mix(bench: Bench, mix: Mix) -> FinishedRun:
    """Run a test under YARN's policy, and under FGCS with the CPU demands measured in sample jobs."""
    policies = [YARN, {"fgcs": {"profiles": demands(samples(bench, live=bench.live))}}]
    return bench.run(mix.name, scenario(jobs_of(mix, live=bench.live), policies, live=bench.live))
