"""Measurement of an application's costs on this host: its code runs in this process on a sample of data.

The sample is the beginning of the job's input. Disk and network are not slowed down, so only CPU time is
measured. `python -m schedbed.deploy.simulated.measure_apps SCENARIO` prints costs as applications declare
them.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.workspace import owned
from schedbed.tasks.appkit.app_catalogue import app_of, generate
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.attempt import run_on
from schedbed.tasks.attempt_status import Meter, cpu_s
from schedbed.tasks.blockfile import Buffer, Piece
from schedbed.tasks.errors import BadInput
from schedbed.tasks.node_client.http_requests import Charge
from schedbed.tasks.node_client.node import FetchFailed, MapOutputAt
from schedbed.tasks.own.program import FILES
from schedbed.tasks.specs import AttemptSpec, TaskKind
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

SAMPLE_BYTES = 8 * 2**20  # the most that is sampled of a job's input
PIECES = 4  # number of maps of the sample for the reduce
TRIES = 3  # repetitions of a measurement; the fastest counts
PIECE_BYTES = 256 * 1024
MEMORY_BYTES = 2**30


def measure(job: PlannedJob, input_file: InputFile | None, seed: int) -> AppCosts:
    """Return the cost laws (CPU time and output by work) of a job on its input's first bytes.

    Raises BadInput if the application fails on the sample.
    """
    return measure_on(job, b"" if input_file is None else sample_of(input_file), seed, {})


def measure_on(job: PlannedJob, sample: bytes, seed: int, programs: Mapping[str, bytes]) -> AppCosts:
    """Return the cost laws of a job on this sample, with a user's own files `programs` by path.

    Raises BadInput if the application fails.
    """
    with tempfile.TemporaryDirectory(prefix=owned("measure-")) as folder:
        bench = _Bench(job, sample, seed, Path(folder), programs)
        whole, piece = bench.map(1), bench.map(PIECES)
        if not job.reduces:
            return _laws(whole, piece, None, None)
        return _laws(whole, piece, bench.reduce(1), bench.reduce(PIECES))


def sample_of(file: InputFile, most_bytes: int = SAMPLE_BYTES) -> bytes:
    """Return an input's first bytes, from the first block only, with whole generated records."""
    size = min(file.blocks[0] if file.blocks else 0, most_bytes)
    if file.source == "generate":
        assert file.generate is not None
        pieces = generate(file.generate, file.length, file.seed)
        data = b"".join(islice(pieces, size // (4 * 2**20) + 2))[:size]
    elif file.real_path is not None:
        with Path(file.real_path).open("rb") as source:
            data = source.read(size)
    else:
        data = bytes(size)
    return data[: len(data) - len(data) % 100] if file.generate == "records" else data


@dataclass(frozen=True, slots=True)
class _Measured:
    """An attempt's costs: CPU time until a map has read or a reduce has merged its input (`first_s`), and after."""

    work: float  # for a reduce, the bytes fetched
    first_s: float
    then_s: float
    output_bytes: int
    records_in: int


class _Bench:
    """A test bench that runs attempts of one job on pieces of a sample, and keeps map outputs for reduces."""

    def __init__(
        self, job: PlannedJob, sample: bytes, seed: int, root: Path, programs: Mapping[str, bytes]
    ) -> None:
        self._job, self._sample, self._seed, self._root = job, sample, seed, root
        self._programs = programs
        params: dict[str, Any] = dict(job.params)
        derive = app_of(job).derive
        if derive is not None:
            read = lambda at, size: sample[at : at + size]  # noqa: E731
            params |= derive(read, len(sample), job.reduces, seed)
        self._params = params

    def map(self, parts: int) -> _Measured:
        """Measure a map on one of `parts` equal parts of the sample, the fastest of several tries.

        Without input, the parameter for the amount of work (such as a number of samples) is divided instead.
        """
        return min(
            (self._map(parts, 0) for _ in range(TRIES)), key=lambda found: found.first_s + found.then_s
        )

    def reduce(self, parts: int) -> _Measured:
        """Measure a reduce that fetches outputs of `parts` maps of a piece each, the fastest of several tries."""
        outputs = []
        for index in range(parts):
            self._map(PIECES, index)
            outputs.append(MapOutputAt(index=index, attempt=f"map-{PIECES}-{index}", node="here"))
        tries = (self._reduce(outputs) for _ in range(TRIES))
        return min(tries, key=lambda found: found.first_s + found.then_s)

    def _map(self, parts: int, index: int) -> _Measured:
        length = len(self._sample) // parts // 100 * 100
        params = dict(self._params)
        app = app_of(self._job)
        if app.work is not None and not app.work.shared:
            params[app.work.parameter] = max(1, app.work_of(params, 0, parts) // parts)
        # If the amount of work is unknown, one of the job's own maps is measured for any part.
        maps = parts if self._sample or app.work is not None else self._job.maps
        spec = self._spec(f"map-{parts}-{index}", TaskKind.MAP, index % maps, maps, params)
        spec |= {"file": "sample", "offset": index * length, "length": length}
        spec |= {"file_length": len(self._sample), "output": None if self._job.reduces else "out"}
        node = _MemoryNode(self._root, self._sample, [], self._programs)
        report, total_s = self._run(AttemptSpec(**spec), node)
        work = app.work_of(params, length, parts)
        # A command goes on computing after its input ends, and its CPU time is known only at its end.
        apart = node.read_until_s is None or FILES in self._params
        first_s = total_s if apart else node.read_until_s or 0.0
        counters = report["counters"]
        return _Measured(work, first_s, total_s - first_s, counters["output_bytes"], counters["records_in"])

    def _reduce(self, outputs: list[MapOutputAt]) -> _Measured:
        spec = self._spec("reduce", TaskKind.REDUCE, 0, len(outputs), self._params)
        node = _MemoryNode(self._root, b"", outputs, self._programs)
        report, total_s = self._run(AttemptSpec(**spec, output="out"), node)
        counters = report["counters"]
        first_s = node.merged_s or 0.0
        return _Measured(counters["shuffle_bytes"], first_s, total_s - first_s, counters["output_bytes"], 0)

    def _spec(self, attempt: str, kind: TaskKind, index: int, maps: int, params: Mapping[str, Any]) -> dict:
        return {
            "attempt": attempt,
            "task": attempt,
            "job": "job_0001",
            "kind": kind,
            "index": index,
            "app": self._job.app,
            "params": params,
            "seed": self._seed,
            "maps": maps,
            "reduces": self._job.reduces,
            "memory_bytes": MEMORY_BYTES,
        }

    def _run(self, spec: AttemptSpec, node: _MemoryNode) -> tuple[dict[str, Any], float]:
        """Return an attempt's report and CPU time in s. Raises BadInput if the attempt fails."""
        scratch, output = self._root / "attempts" / spec.attempt, self._root / "mapout" / spec.attempt
        for old in (output / "data", output / "index.json"):
            old.unlink(missing_ok=True)
        if output.exists():
            output.rmdir()
        run_on(spec, node, self._root, time.time(), 1.0)
        total_s = node.spent_s()
        report = json.loads((scratch / "report.json").read_text())
        if report["state"] != "succeeded":
            raise BadInput(
                f"{self._job.job} {self._job.app} fails on a sample of its input: {report['reason']}"
            )
        return report, total_s


class _CpuMeter(Meter):
    """The counters of one attempt. It also records the CPU time until the merge of a reduce ended."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = cpu_s()
        self.merged_s: float | None = None

    def spent_s(self) -> float:
        """Return the CPU seconds since the start, with children."""
        return cpu_s() - self._began_s

    def mark(self, name: str, at_s: float) -> None:
        super().mark(name, at_s)
        if name == "sort_end":
            self.merged_s = self.spent_s()


class _MemoryNode:
    """A stand-in for a node in measurements. Files are in memory, and access to the disk takes no time."""

    def __init__(
        self, root: Path, data: bytes, outputs: list[MapOutputAt], programs: Mapping[str, bytes]
    ) -> None:
        self._programs = programs
        self._cpu = _CpuMeter()
        self.meter: Meter = self._cpu
        self.read_until_s: float | None = None
        self._root, self._data, self._outputs = root, data, outputs

    def spent_s(self) -> float:
        return self._cpu.spent_s()

    @property
    def merged_s(self) -> float | None:
        """Return the CPU seconds until a reduce's merge ended, or None."""
        return self._cpu.merged_s

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        if file in self._programs:
            yield self._programs[file][start:end]
            return
        for low in range(start, end, PIECE_BYTES):
            yield memoryview(self._data)[low : min(low + PIECE_BYTES, end)].tobytes()
            self.read_until_s = self._cpu.spent_s()

    def create(self, path: str, replication: int, block_bytes: int) -> _CountingSink:
        return _CountingSink(self.meter)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        return len(self._outputs), self._outputs[cursor:], True

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        folder = self._root / "mapout" / output.attempt
        if not folder.exists():
            raise FetchFailed(output.attempt)
        offset, length = json.loads((folder / "index.json").read_text())[partition]
        return (folder / "data").read_bytes()[offset : offset + length]

    def fetch_failed(self, map_attempt: str) -> None:
        raise RuntimeError(f"{map_attempt} left no output to measure a reduce with")

    def disk_stream(self) -> Charge:
        return lambda amount_bytes: None

    def need_room(self) -> None:
        pass


class _CountingSink:
    """An output file that discards the data and only counts the bytes."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def write(self, data: Buffer) -> None:
        self._meter.add("output_bytes", len(data))

    def close(self) -> None:
        pass


def _laws(whole: _Measured, piece: _Measured, few: _Measured | None, all_: _Measured | None) -> AppCosts:
    """Return the cost laws that fit the measurements.

    `whole` is a map of the whole sample, `piece` one of a quarter. `few` is a reduce that fetched one
    quarter's map output, `all_` one that fetched all four's; both are None without reduces.
    """
    start_s, unit_s = _line(whole.work, whole.first_s, piece.work, piece.first_s)
    output = reduce_start_s = reduce_cpu_s = reduce_sort_s = 0.0
    exponent = 1.0
    map_output = _law(whole.work, whole.output_bytes, piece.work, piece.output_bytes)
    if few is not None and all_ is not None:
        reduce_start_s, reduce_cpu_s = _line(all_.work, all_.then_s, few.work, few.then_s)
        reduce_sort_s = all_.first_s / max(1.0, all_.work)
        grown = _law(PIECES, all_.output_bytes, 1, few.output_bytes)
        exponent = grown.exponent
        fetched = max(1.0, few.work)
        # One reduce's share of all output equals its share of the bytes that maps wrote.
        output = few.output_bytes * (piece.output_bytes / fetched) / max(1.0, piece.work) ** exponent
    else:
        output, exponent = map_output.factor, map_output.exponent
    return AppCosts(
        map_start_s=start_s,
        map_cpu_s=unit_s,
        map_sort_s=whole.then_s / max(1, whole.output_bytes),
        map_output=map_output,
        map_records=whole.records_in / max(1.0, whole.work),
        reduce_start_s=reduce_start_s,
        reduce_sort_s=reduce_sort_s,
        reduce_cpu_s=reduce_cpu_s,
        output=Law(output, exponent),
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> tuple[float, float]:
    """Return the intercept and the slope of the line through two points. Neither value is below 0."""
    if x1 <= 0:
        return y1, 0.0
    slope = (y1 - y2) / (x1 - x2) if x1 > x2 else y1 / max(1.0, x1)
    slope = min(max(0.0, slope), y1 / max(1.0, x1))
    return max(0.0, y1 - slope * x1), slope


def _law(x1: float, y1: float, x2: float, y2: float) -> Law:
    if x1 <= 0:
        return Law(y1, 0.0)
    if min(y1, y2) <= 0 or x1 <= x2:
        return Law(y1 / max(1.0, x1))
    exponent = min(1.0, max(0.0, math.log(y1 / y2) / math.log(x1 / x2)))
    return Law(y1 / x1**exponent, exponent)


def show(scenario: str) -> None:
    """Measure the applications of all jobs in the scenario file `scenario`, and print their costs."""
    resolved = resolve(scenario)
    for job in resolved.jobs:
        if job.app != "synthetic":
            costs = measure(job, resolved.input(job.input) if job.input else None, resolved.seed)
            print(f"{job.name} ({job.app}):\n{declared(costs)}")


def declared(costs: AppCosts) -> str:
    """Return the costs as Python source code, with numbers rounded to four significant digits."""

    def shown(value: Any) -> str:
        if isinstance(value, Law):
            return f"Law({value.factor:.4g}, {value.exponent:.4g})"
        return repr(value) if isinstance(value, str) else f"{value:.4g}"

    lines = [f"    {each.name}={shown(getattr(costs, each.name))}," for each in fields(costs)]
    return "\n".join(["costs=AppCosts(", *lines, "),"])


if __name__ == "__main__":
    show(sys.argv[1])
