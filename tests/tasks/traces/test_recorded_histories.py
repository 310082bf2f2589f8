"""Job histories of MapReduce that were recorded on YARN, in both forms of Avro, against what is known of the runs."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.convert import trace_demands
from schedbed.tasks.traces.describe import facts
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.fit_cluster import fit_cluster
from schedbed.tasks.traces.trace import TraceJob

FOLDER = Path(__file__).parents[4] / "shared" / "traces" / "hadoop-mapreduce-yarn"
NAMES = sorted(path.name.removesuffix(".json.jhist.gz") for path in FOLDER.glob("*.json.jhist.gz"))
pytestmark = pytest.mark.skipif(not NAMES, reason="the folder with recorded histories is not here")


def recorded(name: str) -> TraceJob:
    return read_trace(FOLDER / f"{name}.json.jhist.gz").jobs[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_binary_form_gives_the_same_trace(name: str) -> None:
    assert read_trace(FOLDER / f"{name}.binary.jhist.gz") == read_trace(FOLDER / f"{name}.json.jhist.gz")


@pytest.mark.parametrize("cut", [1, 100, 5_000])
def test_a_binary_history_that_is_cut_is_one_line(tmp_path: Path, cut: int) -> None:
    data = gzip.decompress((FOLDER / "fail.binary.jhist.gz").read_bytes())
    (tmp_path / "t").write_bytes(data[:-cut])
    with pytest.raises(
        BadInput, match=r"/t: byte [0-9]+ \(unpacked\): an event of the binary job history is damaged"
    ):
        read_trace(tmp_path / "t")


@pytest.mark.parametrize("at", range(0, 4_000, 97))
def test_a_binary_history_with_a_wrong_byte_is_read_or_refused_in_one_line(tmp_path: Path, at: int) -> None:
    data = bytearray(gzip.decompress((FOLDER / "uber.binary.jhist.gz").read_bytes()))
    data[-1 - at] ^= 0xFF
    (tmp_path / "t").write_bytes(data)
    try:
        read_trace(tmp_path / "t")
    except BadInput as error:
        assert "\n" not in str(error)


def test_a_servers_folder_is_the_trace_of_its_histories(tmp_path: Path) -> None:
    for number, form in ((1, "json"), (2, "binary"), (3, "json")):
        name = f"fifo-1-j{number}.{form}.jhist.gz"
        (tmp_path / f"{number}").mkdir()
        shutil.copy(FOLDER / name, tmp_path / f"{number}" / name)
        (tmp_path / f"{number}" / "job_conf.xml").write_text("<configuration/>")
    trace = read_trace(tmp_path)
    assert [job.name for job in trace.jobs] == ["j1", "j2", "j3"]
    assert [job.submit_s - trace.jobs[0].submit_s for job in trace.jobs] == pytest.approx(
        [0, 4.9, 11.7], abs=0.1
    )
    fit = fit_cluster(trace, trace_demands(trace))
    assert (fit.nodes, fit.map_slots, fit.values()["heartbeat"]) == (3, 3, "1s")


@pytest.mark.parametrize(
    ("name", "failed", "succeeded"),
    [("spec", 0, True), ("fail", 3, True), ("kill", 0, False), ("failjob", 1, False), ("wc1", 0, True)],
)
def test_only_attempts_that_failed_have_failed(name: str, failed: int, succeeded: bool) -> None:
    """Losers of speculation, attempts that never ran, and those that were stopped with their job have not."""
    trace = read_trace(FOLDER / f"{name}.json.jhist.gz")
    assert dict(facts(trace))["failed attempts"] == f"{failed}"
    assert trace.jobs[0].succeeded is succeeded


def works_s(job: TraceJob) -> list[float]:
    return [task.work_s or 0.0 for task in job.maps]


def test_what_attempts_held_is_work() -> None:
    """Map 4 of `spec` began 44 s before its copy ended; maps of `fail` had an attempt of half their time before."""
    assert works_s(recorded("spec"))[4] == pytest.approx(43.8, abs=0.1)
    fail = recorded("fail")
    for index in (0, 3, 6):
        task = fail.maps[index]
        assert (task.work_s or 0) > (task.duration_s or 0) + 4
    killed = works_s(recorded("kill"))
    assert len(killed) == 9 and killed[8] == 0.0  # This map never ran.
    assert killed[:8] == pytest.approx([15.3] * 8, abs=0.2)


def test_a_reduces_wait_for_maps_is_neither_work_nor_shuffle() -> None:
    early, late = recorded("fifo-1-j1").reduces[0], recorded("ss1.0-1").reduces[0]
    assert (early.duration_s or 0) > 20 and (early.work_s or 0) < 10 and (early.shuffle_s or 9) < 3
    assert late.duration_s == pytest.approx((late.work_s or 0) + (late.shuffle_s or 0), abs=0.1)
