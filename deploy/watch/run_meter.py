"""The metrics of a live run for Prometheus, from the rows and statuses that the command's process receives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.deploy.display.display import ENDED
from schedbed.deploy.http_thread import HttpThread
from schedbed.scheduler.history import places_of

KINDS = ("map", "reduce")
SERVICE_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)
WAIT_BUCKETS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


(SERVICE,) = places_of("heartbeats", "service_s")
KIND, STATE, WHERE = places_of("attempts", "kind", "state", "locality")
OFFERED, ANSWER = places_of("decisions", "kind", "answer")
JOB_STATE, QUEUE, SUBMIT, JOB_START = places_of("jobs", "state", "queue", "submit", "start")


class Histogram:
    """A histogram for Prometheus, which counts how many values are at most each of several bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._sum += value
        self._counts[next((i for i, bound in enumerate(self._bounds) if value <= bound), -1)] += 1

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return pairs of an upper bound as text and the number of values up to it, and all values' sum."""
        total, pairs = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            pairs.append((bound, float(total)))
        return pairs, self._sum


class RunMeter:
    """A Prometheus collector for a command's live runs, read by another thread.

    The counters start at zero in each run. All times are emulated seconds.
    """

    def __init__(self) -> None:
        self._about: dict[str, str] = {}
        self._nodes: dict[str, NodeSpec] = {}
        self._reset()

    def _reset(self) -> None:
        self._status: Mapping[str, Any] = {"jobs": [], "nodes": []}
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._jobs: Counter[str] = Counter()
        self._service = Histogram(SERVICE_BUCKETS_S)
        self._waits: dict[str, Histogram] = defaultdict(lambda: Histogram(WAIT_BUCKETS_S))

    def begin(self, nodes: Iterable[NodeSpec], **about: str) -> None:
        """Reset all counters for a run with these labels: policy, repeat and machines."""
        self._about, self._nodes = about, {node.node: node for node in nodes}
        self._reset()

    def take_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add new rows of a table to the counters. The rows have the columns of `history.COLUMNS`."""
        if table == "heartbeats":
            for row in rows:
                self._service.add(row[SERVICE])
        elif table == "attempts":
            self._attempts.update((row[KIND], str(row[STATE]), row[WHERE]) for row in rows)
        elif table == "decisions":
            self._decisions.update((row[OFFERED], row[ANSWER]) for row in rows)
        elif table == "jobs":
            for row in rows:
                self._jobs[str(row[JOB_STATE])] += 1
                if row[JOB_START] is not None:
                    self._waits[row[QUEUE]].add(row[JOB_START] - row[SUBMIT])

    def take_status(self, status: Mapping[str, Any]) -> None:
        """Store the JobTracker's status (`scheduler.core.core`)."""
        self._status = status

    def take_condition(self, now_s: float, held: object, down: object) -> None:
        """Do nothing: the metrics are those of the JobTracker."""

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. A Prometheus registry calls this method."""
        status = self._status
        yield _gauge("run_info", "The run that goes on.", [(self._about, 1.0)])
        yield _gauge("emulated_time_seconds", "Since the run's start.", [({}, status.get("now_s", 0.0))])
        yield from self._of_nodes(status["nodes"])
        yield from _of_queues(status["jobs"])
        yield _counter(
            "jobs_ended", "Jobs that have ended.", {(("state", s),): n for s, n in self._jobs.copy().items()}
        )
        yield _counter(
            "attempts_ended",
            "Attempts that have ended.",
            {
                (("kind", k), ("state", s), ("locality", w)): n
                for (k, s, w), n in self._attempts.copy().items()
            },
        )
        yield _counter(
            "decisions",
            "Offers by the policy's answer.",
            {(("kind", k), ("answer", a)): n for (k, a), n in self._decisions.copy().items()},
        )
        yield _histogram("heartbeat_service_seconds", "To answer a heartbeat.", {(): self._service})
        waits = {(("queue", queue),): found for queue, found in self._waits.copy().items()}
        yield _histogram("job_wait_seconds", "From a job's submission to its first launch.", waits)

    def _of_nodes(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
        states = Counter(row["state"] for row in rows)
        yield _gauge(
            "nodes", "Nodes by state.", [({"state": state}, states[state]) for state in ("alive", "lost")]
        )
        slots = [
            ({"node": row["node"], "kind": kind}, row[f"{kind}_slots"]) for row in rows for kind in KINDS
        ]
        yield _gauge("node_slots", "Slots of a node.", slots)
        yield _gauge(
            "node_attempts", "Attempts on a node.", [({"node": r["node"]}, len(r["running"])) for r in rows]
        )
        for name, unit, of in (
            ("cpu_limit_cores", "Cores of the host, all attempts together.", lambda n: n.cpu_rate),
            ("disk_limit_bytes_per_second", "Reads and writes together.", lambda n: n.disk_bps),
            ("network_limit_bytes_per_second", "Each way.", lambda n: n.network_bps),
            ("memory_limit_bytes", "All attempts together.", lambda n: n.memory_bytes),
        ):
            found = [({"node": name}, float(of(node))) for name, node in self._nodes.items()]
            yield _gauge(f"node_{name}", f"Declared limit. {unit}", found)
        for name, key in (("cpu", "cpu_util"), ("disk", "disk_util"), ("network", "net_util")):
            found = [({"node": row["node"]}, row[key]) for row in rows]
            yield _gauge(f"node_{name}_used_ratio", "Use, by the declared limit.", found)
        yield _gauge(
            "node_memory_used_bytes",
            "Memory of all attempts.",
            [({"node": row["node"]}, row["memory_bytes"]) for row in rows],
        )


def _of_queues(jobs: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield, for each queue, the number of unfinished jobs and the numbers of their tasks."""
    running: Counter[str] = Counter()
    tasks: Counter[tuple[str, str, str]] = Counter()
    for job in jobs:
        queue, going = job["queue"], job["state"] not in ENDED
        running[queue] += going
        for kind in KINDS:
            total, done, runs = (job[f"{kind}s{part}"] for part in ("", "_done", "_running"))
            tasks[queue, kind, "running"] += runs * going
            tasks[queue, kind, "waiting"] += max(0, total - done - runs) * going
    yield _gauge("queue_jobs", "Jobs that have not ended.", [({"queue": q}, n) for q, n in running.items()])
    found = [({"queue": q, "kind": k, "state": s}, n) for (q, k, s), n in tasks.items()]
    yield _gauge("queue_tasks", "Tasks of jobs that have not ended.", found)


Labels = tuple[tuple[str, str], ...]


def _gauge(name: str, text: str, found: Sequence[tuple[Mapping[str, str], float]]) -> Metric:
    family = GaugeMetricFamily(f"schedbed_{name}", text, labels=list(found[0][0]) if found else [])
    for labels, value in found:
        family.add_metric(list(labels.values()), float(value))
    return family


def _counter(name: str, text: str, found: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(f"schedbed_{name}", text, labels=_names(found))
    for labels, value in sorted(found.items()):
        family.add_metric([value for _, value in labels], float(value))
    return family


def _histogram(name: str, text: str, found: Mapping[Labels, Histogram]) -> Metric:
    family = HistogramMetricFamily(f"schedbed_{name}", text, labels=_names(found))
    for labels, histogram in found.items():
        buckets, total = histogram.buckets()
        family.add_metric([value for _, value in labels], buckets, total)
    return family


def _names(found: Mapping[Labels, Any]) -> list[str]:
    return [name for name, _ in next(iter(found), ())]


# The HTTP server for a run's Prometheus metrics. It listens on the loopback interface and requires a token.


def serve_metrics(meter: RunMeter, token: str, port: int) -> HttpThread:
    """Return a server of the metrics at `/metrics`, for the header `Authorization: Bearer TOKEN`. Port 0: any."""
    registry = CollectorRegistry()
    registry.register(meter)  # pyright: ignore[reportArgumentType] - only `collect` is called

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    gate = HttpGate(token, Refusal("text/plain", b"no valid token"))
    app = web.Application(middlewares=[gate.middleware()])
    app.router.add_get("/metrics", metrics)
    return HttpThread(app, gate, port=port)
