"""The benchmarks and the eight tests of section 3, and the cluster of Table 2.

Simulated, they are synthetic jobs whose CPU times reproduce the paper's: maps of Pi and Bbp take as long as
measured, those of TeraGen and ETL use the measured share of a core (Table 1) while they read and write at the
disk's rate. Live, they are the applications themselves, with maps as long on cores of a 20th of a host's, and
a disk as much slower as TeraGen's demand is Table 1's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.tasks.appkit.app_catalogue import APPS

NODES, CORES = 8, 8
DISK_BPS = 100e6
TERAGEN_BYTES = 2e9  # output of one map
ETL_READ_BYTES, ETL_WRITE_BYTES = 1e9, 1.2e9
"""The paper does not print its block size. Its jobs take about equally long (3.1), unlike with blocks of 128 MB."""
LIVE_NODES, LIVE_CORES = 2, 8
LIVE_SCALE, LIVE_CORE_SPEED = 0.1, 0.05
LIVE_DISK_BPS = 23.4e6
"""At this rate a map of TeraGen, which computes 2.1 ns of a host's core for each byte, has the demand of Table 1."""
BBP_DIGITS, BBP_TERMS = 10_000, 1_000
"""The digits of which the cost of one is known, and the fixed cost of eight digits in terms of the series."""

RESERVED_CORES = 1  # FGCS's default
CONTAINERS = "order=fair,locality=delay,admission=containers"
YARN = f"{CONTAINERS}:reserved_cores={RESERVED_CORES}"
"""YARN with 7 vcores: one core of a node is reserved, as under FGCS (section 3)."""

YARN8 = f"{CONTAINERS}:reserved_cores=0"
"""YARN with 8 vcores, as many as a node has cores: the policy without FGCS (sections 1 and 3)."""

CPU_JOBS, IO_JOBS = ("pi", "bbp"), ("teragen", "etl")
SAMPLE_TASKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A test: benchmark jobs that run together. `pattern` is that of Table 3: `balanced`, `io` or `cpu`."""

    name: str
    pattern: str
    cpu: tuple[str, ...]
    io: tuple[str, ...]

    @property
    def jobs(self) -> tuple[str, ...]:
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
    """Return a benchmark's job. CPU-bound maps take what the paper measured in the test `mix`."""
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


def live_job(name: str, maps: int, mix: str = "") -> dict[str, Any]:
    """Return a benchmark's application, with maps as long as those of `job` and as many."""
    made: dict[str, Any] = {"name": name, "app": name, "user": name}
    shorter = LIVE_DISK_BPS / DISK_BPS
    if name == "teragen":
        return made | {"maps": maps, "params": {"bytes": round(TERAGEN_BYTES * shorter)}}
    if name == "etl":
        size = maps * round(ETL_READ_BYTES * shorter)
        return made | {"input": {"generate": "text", "size": f"{size}B", "seed": 1}}
    host_s = LIVE_SCALE * LIVE_CORE_SPEED * float(_map(name, mix)["cpu"].removesuffix("s"))
    unit_s = unit_cpu_s(name)
    if name == "pi":
        return made | {"maps": maps, "reduces": 1, "params": {"samples": round(host_s / unit_s)}}
    # Digit n needs n terms beside the fixed ones, so all together a square.
    terms = maps * host_s / unit_s * (BBP_TERMS + BBP_DIGITS / 2)
    digits = round(sqrt(BBP_TERMS**2 + 2 * terms) - BBP_TERMS)
    return made | {"maps": maps, "reduces": 1, "params": {"digits": digits}}


def unit_cpu_s(app: str) -> float:
    """Return the CPU time in s of a host's core that a map of an application needs for each unit of its work."""
    costs = APPS[app].costs
    assert costs is not None
    return costs.map_cpu_s


def _map(name: str, mix: str) -> dict[str, str]:
    if name in CPU_JOBS:
        said = paper_file.load("liu2015").experiments["tests"].values
        took_s = said[f"{mix or name + '-teragen'}_{name}_yarn_map"].number
        return {"cpu": f"{took_s}s", "write": "1kB"}
    read, written = (0.0, TERAGEN_BYTES) if name == "teragen" else (ETL_READ_BYTES, ETL_WRITE_BYTES)
    demand = printed_demand(name) / 100
    io_s = (read + written) / DISK_BPS  # equation 3
    bytes_ = {"read": f"{round(read)}B"} if read else {}
    return {"cpu": f"{io_s * demand / (1 - demand):.3f}s", **bytes_, "write": f"{round(written)}B"}


def printed_demand(name: str) -> float:
    """Return the CPU demand of a benchmark's maps in percent of a core that Table 1 prints."""
    return paper_file.load("liu2015").experiments["table1"].values[f"{name}_map"].number


def jobs_of(mix: Mix, *, live: bool) -> list[dict[str, Any]]:
    """Return the jobs of a test, with the numbers of maps in Table 3, or a quarter of them if `live`."""
    said = paper_file.load("liu2015").experiments["tests"].values
    part = LIVE_NODES / NODES if live else 1.0
    sizes = {
        **dict.fromkeys(mix.cpu, said[f"{mix.pattern}_cpu_tasks"].number),
        **dict.fromkeys(mix.io, said[f"{mix.pattern}_io_tasks"].number),
    }
    make = live_job if live else job
    return [make(name, max(1, round(part * size)), mix.name) for name, size in sizes.items()]


def scenario(jobs: Sequence[Mapping[str, Any]], policies: Sequence[Any], *, live: bool) -> dict[str, Any]:
    """Return a scenario on eight nodes of 8 cores, 24 GB and 10 Gbit/s, or live on two at a scale of 1/10."""
    node = {
        "cores": LIVE_CORES if live else CORES,
        "core_speed": LIVE_CORE_SPEED if live else 1.0,
        "memory": "4GiB" if live else "24GiB",
        "disk": f"{round(LIVE_DISK_BPS if live else DISK_BPS)}B/s",
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
        # A live map of ETL reads one block.
        "blocks": {
            "size": f"{round(ETL_READ_BYTES * LIVE_DISK_BPS / DISK_BPS)}B" if live else "128MB",
            "replication": 2 if live else 3,
        },
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
    }


def samples(bench: Bench, *, live: bool) -> FinishedRun:
    """Run the sample jobs of section 2.3 under FGCS, which measures their CPU demands.

    Samples and later jobs need equal hardware: FGCS converts demands between core speeds, but synthetic CPU
    times are the same on all cores.
    """
    plan = scenario(sample_jobs(live=live), [{"fgcs": {"profiles": "none"}}], live=live)
    return bench.run("samples", plan, repeats=1)


def sample_jobs(*, live: bool = False) -> list[dict[str, Any]]:
    """Return a job with 16 maps for each benchmark. The jobs are submitted one after the other."""
    make, apart_s = (live_job, 300) if live else (job, 600)
    return [
        {**make(name, SAMPLE_TASKS), "submit": f"{apart_s * number}s"}
        for number, name in enumerate(CPU_JOBS + IO_JOBS)
    ]


def demands(finished: FinishedRun) -> Mapping[str, Mapping[str, Any]]:
    """Return the CPU demands that FGCS measured in the samples."""
    return finished.findings(finished.policies[0])["profiles"]["demand"]


def run_mix(bench: Bench, mix: Mix) -> FinishedRun:
    """Run a test under YARN, under FGCS with the samples' demands, and simulated under YARN with 8 vcores."""
    policies = [YARN, {"fgcs": {"profiles": demands(samples(bench, live=bench.live))}}]
    policies += [] if bench.live else [YARN8]
    return bench.run(mix.name, scenario(jobs_of(mix, live=bench.live), policies, live=bench.live))
