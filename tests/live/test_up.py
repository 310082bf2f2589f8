"""A cluster that stays up: users submit at the same time, masters die, and nothing is left after its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
import yaml

from schedbed import connect
from schedbed.deploy.failures import RunFailed
from schedbed.scheduler.history import read_tables
from schedbed.tasks.appkit.app_catalogue import generate
from tests.harness.command import Command, Started, eventually, write_scenario

pytestmark = pytest.mark.live

SIZE_BYTES = 32 * 2**20 // 20
BURN = {
    "app": "synthetic",
    "maps": 12,
    "map": {"cpu": "30s", "read": "16MiB", "write": "4MiB"},
    "reduces": 1,
    "reduce": {"cpu": "10s"},
}
HALVES = {"capacity": {"queues": {"default": {"capacity": 50}, "etl": {"capacity": 50}}}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder in which clusters of this test are registered."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def terminal(place: Path, name: str, *arguments: str) -> Command:
    """Start a command in its own folder `name`, as in a separate terminal."""
    folder = place / name
    folder.mkdir()
    return Command(folder, *arguments)


def bring_up(place: Path, *options: str, policy: Any = "fair") -> Started:
    """Start the cluster `lab` with the nodes of the small scenario; return the processes of its service."""
    scenario = write_scenario(place, policies=[policy])
    command = terminal(
        place, "up", "up", str(scenario), "--name", "lab", "--out", str(place / "out"), *options
    )
    assert command.wait() == 0, command.text()
    name = policy if isinstance(policy, str) else next(iter(policy))
    assert f"cluster lab is up under {name}" in command.text()
    return Started(connect("lab").record.pid)


def said(place: Path, *arguments: str) -> tuple[int, str]:
    """Run a command to its end, and return its exit code and its output."""
    command = terminal(place, f"terminal{len(list(place.iterdir()))}", *arguments)
    return command.wait(), command.text()


def test_users_submit_at_once_and_a_jobtracker_that_dies_loses_nothing(place: Path) -> None:
    service = bring_up(place, "--metrics", "0", "--webhdfs", "0", policy=HALVES)
    burn = connect().submit({**BURN, "user": "cleo"})
    ana = terminal(
        place,
        "ana",
        *("submit", "lab", "--app", "wordcount", "--input", "generate=text,size=32MiB", "--reduces", "2"),
        *("--user", "ana", "--save", str(place / "words")),
    )
    bo = terminal(
        place,
        "bo",
        *("submit", "--app", "sort", "--input", "generate=records,size=32MiB", "--reduces", "2"),
        *("--user", "bo", "--save", str(place / "sorted")),
    )
    eventually(lambda: burn.status()["maps_running"], "no map runs")
    code, text = said(place, "report", str(place / "out"))
    assert code == 0 and "the run goes on; so far, 0 of 1 runs" in text, text
    code, text = said(place, "change", "lab", "{queues: {default: {capacity: 70}, etl: {capacity: 30}}}")
    assert code == 0 and text.startswith("changed at "), text
    service.find("ray::JobTrackerActor").kill()
    later, never = connect().submit_all([{"app": "pi", "reduces": 1}, {**BURN, "user": "dora"}])
    assert said(place, "kill", "lab", never.job)[0] == 0
    for command in (ana, bo):
        assert command.wait() == 0, command.text()
    assert [job.wait() for job in (burn, later, never)] == ["succeeded", "succeeded", "killed"]
    assert later.outputs()["part-00000"].startswith(b"3.1")

    # The new JobTracker knows that the other queue has 70.
    code, text = said(place, "change", "lab", "{queues: {etl: {capacity: 50}}}")
    assert code == 2 and "capacities add up to 120, expected at most 100" in text, text
    check_doors(connect("lab").record.doors)
    code, text = said(place, "status", "lab", "--json")
    status = json.loads(text)
    assert code == 0 and [job["job"] for job in status["jobs"]] == [f"job_000{i}" for i in range(1, 6)]
    assert {"ana", "bo", "cleo", "dora"} < {user["user"] for user in status["users"]}
    code, text = said(place, "down")
    assert code == 0, text
    assert service.left_behind() == [] and not (place / "schedbed").exists()
    check_words(place / "words")
    check_sorted(place / "sorted")
    check_results(place / "out")


def check_doors(doors: Mapping[str, str]) -> None:
    """Check that WebHDFS and the metrics answer at the addresses and with the token files in `doors`."""
    (metrics, bearer), (webhdfs, delegation) = (
        (where.split(", ")[0], Path(where.rpartition(" ")[2]).read_text())
        for where in (doors["metrics"], doors["WebHDFS"])
    )
    request = Request(metrics, headers={"Authorization": f"Bearer {bearer}"})
    with urlopen(request, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    assert 'schedbed_jobs_ended_total{state="succeeded"} 4.0' in lines, lines
    with urlopen(f"{webhdfs}/out?op=LISTSTATUS&delegation={delegation}", timeout=60) as answer:
        assert json.load(answer)["FileStatuses"]["FileStatus"]
    for_hadoop = Path(doors["WebHDFS"].rpartition(" ")[2]).with_name("webhdfs-credentials")
    assert for_hadoop.stat().st_mode & 0o777 == 0o600 and delegation.encode() in for_hadoop.read_bytes()


def check_words(folder: Path) -> None:
    lines = [line.split(b"\t") for part in folder.glob("*/part-*") for line in part.read_bytes().splitlines()]
    expected = Counter(b"".join(generate("text", SIZE_BYTES, 3)).split())
    assert {word: int(count) for word, count in lines} == dict(expected)


def check_sorted(folder: Path) -> None:
    rows = b"".join(part.read_bytes() for part in sorted(folder.glob("*/part-*")))
    made = b"".join(generate("records", SIZE_BYTES - SIZE_BYTES % 100, 3))
    assert len(rows) == len(made)
    records = [rows[at : at + 100] for at in range(0, len(rows), 100)]
    assert [record[:10] for record in records] == sorted(record[:10] for record in records)
    assert Counter(records) == Counter(made[at : at + 100] for at in range(0, len(made), 100))


def check_results(out: Path) -> None:
    tables = read_tables(out)
    assert sorted(tables["jobs"]["state"]) == ["killed"] + ["succeeded"] * 4
    assert (tables["jobs"]["submit"] > 0).all()
    scenario: dict[str, Any] = json.loads((out / "run.json").read_text())["scenario"]
    assert len(scenario["jobs"]) == len(scenario["given"]["workload"]["jobs"]) == 5
    (change,) = yaml.safe_load((out / "scenario.yaml").read_text())["changes"]
    assert change["queues"] == {"default": {"capacity": 70}, "etl": {"capacity": 30}}
    assert [path.name for path in out.iterdir() if "token" in path.name or "credentials" in path.name] == []
    for name in ("summary.json", "report.html", "timeline.json", "scenario.yaml", "log.txt"):
        assert (out / name).stat().st_size > 0


def test_a_service_that_is_killed_leaves_nothing_and_is_said_to_be_gone(place: Path) -> None:
    service = bring_up(place)
    job = connect().submit(BURN)
    eventually(lambda: job.status()["maps_running"], "no map runs")
    machines = [
        process for process in service.processes() if "schedbed.cluster." in " ".join(process.cmdline())
    ]
    assert machines
    psutil.Process(service.pid).kill()
    with pytest.raises(RunFailed, match=r"cluster lab is gone: its process .* was killed"):
        job.wait()
    _, alive = psutil.wait_procs(machines, timeout=60)
    assert alive == []
    code, text = said(place, "down", "lab")
    assert code == 2 and "no cluster 'lab' is up" in text, text
    code, text = said(place, "down", "--all")
    assert code == 0, text
    assert service.left_behind() == [] and not (place / "schedbed").exists()
    code, text = said(place, "report", str(place / "out"))
    assert code == 0, text
    assert [job["job"] for job in json.loads((place / "out/run.json").read_text())["scenario"]["jobs"]] == [
        "job_0001"
    ]


def test_ctrl_c_while_a_cluster_starts_leaves_nothing(place: Path) -> None:
    scenario = write_scenario(place)
    command = terminal(place, "up", "up", str(scenario), "--name", "lab", "--out", str(place / "out"))
    service = Started(
        eventually(lambda: [p.pid for p in psutil.Process(command.pid).children()], "no service was started")[
            0
        ]
    )
    eventually(service.scratch, "the service did not begin")
    command.interrupt()
    assert command.wait() == 130, command.text()
    assert service.left_behind() == [] and not (place / "schedbed").exists()


def test_a_class_works_on_a_cluster_with_tokens_and_quotas(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lecturer creates a list of users and starts the cluster; the user ana works with her token only.

    A restart of the JobTracker changes nothing about her access.
    """
    assert said(place, "users", str(place / "class.yaml"), "add", "ana", "--jobs", "2")[0] == 0
    code, text = said(place, "users", str(place / "class.yaml"), "set", "ana", "--new-token", "--json")
    token = json.loads(text.splitlines()[0])["users"][0]["token"]
    service = bring_up(place, "--users", str(place / "class.yaml"), "--web", "0")
    lab = connect("lab")
    foreign = lab.submit({**BURN, "user": "bo"})
    with monkeypatch.context() as student:
        student.setenv("XDG_RUNTIME_DIR", str(place / "terminal0"))
        student.setenv("SCHEDBED_CLUSTER", lab.record.url)
        student.setenv("SCHEDBED_TOKEN", token)
        (place / "book.txt").write_text("a b a\n" * 1000)
        words = connect().submit({"app": "wordcount", "input": "book.txt"}, base=place)
        service.find("ray::JobTrackerActor").kill()
        assert words.wait() == "succeeded"
        held = [connect().submit({"app": "pi", "submit": "10h"}) for _ in range(2)]
        with pytest.raises(RunFailed, match="ana has 2 of 2 jobs in use"):
            connect().submit({"app": "pi"})
        for command in (("kill", foreign.job), ("fault", "kill", "n1"), ("down",), ("users", "add", "bo")):
            code, text = said(place, *command)
            assert code == 1 and ("only the cluster's owner" in text or "a job of bo" in text), text
        for job in held:
            job.kill()
        assert [job.wait() for job in held] == ["killed", "killed"]
        assert connect().submit({"app": "pi", "maps": 2}).wait() == "succeeded"
        assert words.outputs() == {"part-00000": b"a\t2000\nb\t1000\n"}
        code, text = said(place, "status")
        assert code == 0 and "ana: 0 of 2 jobs" in text and str(place / "out") not in text
    check_page_of_a_user(lab.record.doors["page"], token)
    foreign.kill()
    assert said(place, "down", "lab")[0] == 0
    assert service.left_behind() == []
    jobs = yaml.safe_load((place / "out/scenario.yaml").read_text())["workload"]["jobs"]
    assert [job["user"] for job in jobs] == ["bo", *["ana"] * 4]
    assert token not in "".join(path.read_text(errors="replace") for path in (place / "out").glob("*.*"))


def check_page_of_a_user(url: str, token: str) -> None:
    """Check that a user's token opens the live page, and that a change by this user is refused."""
    own = f"{url.partition('?')[0]}?token={token}"
    with urlopen(own, timeout=60) as answer:
        assert answer.status == 200
    request = Request(own.replace("/?", "/kill?"), b"{}", {"Authorization": f"Bearer {token}"})
    with pytest.raises(HTTPError, match="401"):
        urlopen(request, timeout=60)
