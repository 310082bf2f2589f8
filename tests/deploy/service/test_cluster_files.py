"""Tests how a user's clusters are found by their files, and how files of dead clusters are treated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.service.cluster_files import (
    LOG,
    ClusterRecord,
    check_name,
    claimed,
    clusters,
    find,
    has_ended,
    home,
    mark_failed,
    read_record,
    write_record,
)
from schedbed.tasks.errors import BadInput


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new folder for the files of clusters, so that no other cluster is found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def record(name: str, out: Path) -> ClusterRecord:
    return ClusterRecord(
        name=name,
        pid=os.getpid(),
        url="http://127.0.0.1:9",
        token="secret",
        out=str(out),
        policy="fair",
        machines="process",
        started="",
    )


def test_a_cluster_is_found_while_its_service_lives_and_only_by_its_user(place: Path) -> None:
    with claimed("lab") as folder:
        assert clusters() == ({}, {}), "one that still starts is not up"
        write_record(folder, record("lab", place))
        assert (folder / "cluster.json").stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == home().stat().st_mode & 0o777 == 0o700
        assert find(None) == find("lab") == record("lab", place)
        assert not has_ended(find("lab"))
        with pytest.raises(BadInput, match="no cluster 'dev' is up, expected one of lab"):
            find("dev")
    assert has_ended(record("lab", place))
    assert not (place / "schedbed" / "lab").exists()


def test_a_second_one_of_the_same_name_is_refused() -> None:
    with (
        claimed("lab"),
        pytest.raises(BadInput, match="--name lab: a cluster of that name is up"),
        claimed("lab"),
    ):
        pass


def test_without_a_name_there_must_be_exactly_one(place: Path) -> None:
    with pytest.raises(BadInput, match="no cluster is up, start one: schedbed up"):
        find(None)
    with claimed("a") as a, claimed("b") as b:
        write_record(a, record("a", place))
        write_record(b, record("b", place))
        with pytest.raises(BadInput, match="several clusters are up, expected the name of one: a, b"):
            find(None)


def test_of_a_killed_service_a_line_and_its_log_are_left(place: Path) -> None:
    code = (
        "import os, sys\nfrom tests.deploy.service.test_cluster_files import *\n"
        "with claimed('lab') as folder:\n"
        "    write_record(folder, record('lab', Path(sys.argv[1])))\n"
        "    (folder / LOG).write_text('the end')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(place)]).returncode == -9
    killed = read_record(home() / "lab")
    assert killed is not None and has_ended(killed)
    line = f"cluster lab is gone: its process {killed.pid} was killed"
    with pytest.raises(RunFailed, match=line):
        find("lab")
    assert not (place / "schedbed").exists()
    assert (place / LOG).read_text() == "the end"


def test_a_cluster_that_failed_says_why_to_the_next_who_asks(place: Path) -> None:
    with claimed("lab") as folder:
        write_record(folder, record("lab", place))
        mark_failed(folder, "fair: RuntimeError: no idea")
    up, gone = clusters()
    assert up == {} and gone["lab"].startswith("cluster lab is gone: fair: RuntimeError: no idea; ")
    assert clusters() == ({}, {})


def test_another_cluster_of_the_same_name_is_not_the_one_that_was_meant(place: Path) -> None:
    with claimed("lab") as folder:
        write_record(folder, record("lab", place))
        assert has_ended(replace(record("lab", place), token="older"))


def test_a_folder_that_others_can_read_holds_no_token(place: Path) -> None:
    (place / "schedbed").mkdir(mode=0o755)
    with pytest.raises(BadInput, match="expected a folder of this user that nobody else can read"):
        home()


def test_a_record_of_another_kind_is_none(place: Path) -> None:
    (place / "cluster.json").write_text(json.dumps({"name": "lab"}))
    assert read_record(place) is None


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b", "x" * 101])
def test_a_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(BadInput, match="--name"):
        check_name(name)
