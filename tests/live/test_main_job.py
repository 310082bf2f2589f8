"""Real applications on a live cluster under three policies: right outputs, and all promised files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from schedbed.scheduler.history import COLUMNS, read_tables
from schedbed.tasks.appkit.app_catalogue import generate
from tests.harness.command import outputs

pytestmark = pytest.mark.live

POLICIES = ["fifo", "fair", "delay:node_wait=20s"]
SIZE_BYTES = 96 * 2**20 // 20


def test_every_policy_gives_the_same_output(undisturbed: Path) -> None:
    first = outputs(undisturbed, "fifo")
    assert sorted({name.split("/")[0] for name in first}) == ["job_0001", "job_0002", "job_0003"]
    for policy in POLICIES[1:]:
        assert outputs(undisturbed, policy) == first


def test_wordcount_agrees_with_coreutils(undisturbed: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join(generate("text", SIZE_BYTES, 3)))
    script = "tr -s '[:space:]' '\\n' < text | sed '/^$/d' | LC_ALL=C sort | uniq -c"
    counted = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True).stdout
    expected = {line.split()[1]: int(line.split()[0]) for line in counted.splitlines()}
    parts = [data for name, data in outputs(undisturbed).items() if name.startswith("job_0001/")]
    found = dict(line.split(b"\t") for part in parts for line in part.splitlines())
    assert {word: int(count) for word, count in found.items()} == expected


def test_sort_is_in_total_order_with_nothing_lost(undisturbed: Path) -> None:
    parts = [data for name, data in outputs(undisturbed).items() if name.startswith("job_0002/")]
    rows = np.frombuffer(b"".join(parts), dtype="S100")
    original = np.frombuffer(b"".join(generate("records", SIZE_BYTES, 3)), dtype="S100")
    keys = rows.astype("S10")
    assert bool(np.all(keys[:-1] <= keys[1:]))
    assert len(parts) == 2 and all(parts)
    assert bool(np.array_equal(np.sort(rows), np.sort(original)))


def test_all_tables_and_files_are_there(undisturbed: Path) -> None:
    tables = read_tables(undisturbed)
    for table, columns in COLUMNS.items():
        assert list(tables[table].columns) == ["policy", "repeat", *columns]
    assert set(tables["jobs"]["state"]) == {"succeeded"}
    assert set(tables["jobs"]["policy"]) == set(POLICIES)
    attempts = tables["attempts"]
    assert (attempts["start"] >= attempts["assigned"] - 0.05).all()
    assert (attempts["end"] > attempts["start"]).all()
    assert len(tables["heartbeats"]) > 30 and len(tables["blocks"]) > 30
    launches = tables["decisions"].query("answer == 'launch'")
    assert len(launches) == len(attempts)
    assert (tables["decisions"]["reason"].str.len() > 0).all()
    for name in ("run.json", "summary.json", "report.html", "timeline.json"):
        assert (undisturbed / name).stat().st_size > 100


def test_the_summary_says_what_the_contract_promises(undisturbed: Path) -> None:
    summary = json.loads((undisturbed / "summary.json").read_text())
    assert list(summary["policies"]) == POLICIES
    for figures in summary["policies"].values():
        assert figures["makespan_s"]["mean"] > 2
        assert len(figures["makespan_s"]["repeats"]) == 1


def test_blocks_that_the_maps_read_were_where_the_table_says(undisturbed: Path) -> None:
    tables = read_tables(undisturbed)
    attempts = tables["attempts"].query("kind == 'map' and job == 'job_0003'")
    local = attempts[attempts["locality"] == "node"]
    far = attempts[attempts["locality"] != "node"]
    assert (local["read_remote_bytes"] == 0).all()
    assert (local["read_local_bytes"] > 0).all()
    assert (far["read_remote_bytes"] > 0).all()
