"""Tests users who have a token for a cluster: the jobs they may submit, their quotas, and class lists."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from schedbed.cluster.blocks.block_errors import NoNodes
from schedbed.deploy.cli import main
from schedbed.deploy.failures import Denied, RunFailed
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.service.job_intake import Desk
from schedbed.deploy.service.users.quota_ledger import QuotaLedger
from schedbed.deploy.service.users.sent_files import SENT_BYTES, pack_files, unpack_files
from schedbed.deploy.service.users.user_book import (
    TokenUser,
    UserBook,
    UserChange,
    UserQuota,
    open_class,
    read_class,
    write_class,
)
from schedbed.deploy.service.users.user_desk import UserDesk
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import PlannedJob

SCENARIO: dict[str, Any] = {"scale": 0.5, "seed": 3, "cluster": {"nodes": 2}, "blocks": {"size": "1MiB"}}
TEXT = {"generate": "text", "size": "4MiB"}
PI = {"app": "pi", "maps": 4, "reduces": 1}
APP = "class Count:\n    def map(self, record):\n        yield record, 1\n"


class FakeCluster:
    """A fake session that accepts all jobs at 10 s, and records uploads."""

    def __init__(self) -> None:
        self.uploaded: list[str] = []
        self.broken = False
        self.duration_s = 10.0

    def upload(self, file: Any) -> None:
        if self.broken:
            raise NoNodes("no node has registered")
        self.uploaded.append(file.path)

    def submit(self, jobs: Any) -> dict[str, float]:
        return {job.job: 10.0 + job.submit_s for job in jobs}

    def change(self, given: Any) -> None: ...


class ClassDesk:
    """The desk of a cluster with one user, ana, whose quota is given."""

    def __init__(self, out: Path, *, own_code: bool = False, **quota: int) -> None:
        self.session, self.ledger = FakeCluster(), QuotaLedger()
        self.desk = Desk(resolve(SCENARIO, idle=True), self.session)
        self.user_desk = UserDesk(self.desk, self.ledger, out)
        self.out = out
        self.ana = TokenUser(name="ana", token_sha256="", quota=UserQuota(**quota), own_code=own_code)

    def take(self, *jobs: Any, files: dict[str, bytes] | None = None, **more: Any) -> tuple[PlannedJob, ...]:
        sent = {name: base64.b64encode(data).decode() for name, data in (files or {}).items()}
        return self.user_desk.take({"jobs": list(jobs), "files": sent, **more}, self.ana)

    def use(self) -> dict[str, int]:
        return self.ledger.use("ana")

    def sent(self) -> list[str]:
        return sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file())


# ------------------------------------------------------------------------------------------------------- tokens


def test_a_token_is_known_by_its_digest_only() -> None:
    book = UserBook()
    ana, bo = book.add("ana", UserChange()), book.add("bo", UserChange(jobs=2))
    found = book.who(bo)
    assert found is not None and (found.name, found.quota.jobs) == ("bo", 2)
    assert (
        ana != bo
        and len(ana) >= 40
        and not {ana, bo} & set(json.dumps([u.to_json() for u in book]).split('"'))
    )
    for wrong in ("", ana[:-1], ana + "x", "t\udcffken", found.token_sha256):
        assert book.who(wrong) is None


def test_a_change_keeps_the_token_unless_a_new_one_is_asked_for() -> None:
    book = UserBook()
    token = book.add("ana", UserChange(tasks=7))
    assert book.set("ana", UserChange(own_code=True)) is None
    ana = book.who(token)
    assert ana is not None and ana.own_code and ana.quota.tasks == 7
    new = book.set("ana", UserChange(new_token=True))
    assert new is not None and book.who(token) is None and book.who(new) == book.find("ana")
    book.remove("ana")
    assert book.who(new) is None
    with pytest.raises(BadInput, match=r"no user 'ana' has a token"):
        book.remove("ana")


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 65, "ana\n"])
def test_names_of_users_are_plain(name: str) -> None:
    with pytest.raises(BadInput, match="expected letters, digits"):
        UserBook().add(name, UserChange())


# ------------------------------------------------------------------------------------------------------- rights


def test_jobs_of_a_token_belong_to_its_user(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path)
    (job,) = desk.take(PI)
    assert job.user == "ana"
    (job,) = desk.take(PI | {"user": "ana"}, user="bo")
    assert job.user == "ana"
    assert [each["user"] for each in desk.desk.scenario.given["workload"]["jobs"]] == ["ana", "ana"]
    with pytest.raises(BadInput, match=r"jobs\[1\].user: 'bo', but this token submits for ana only"):
        desk.take(PI, PI | {"user": "bo"})
    with pytest.raises(BadInput, match=r"class.yaml:1: jobs\[0\].user: 'bo'"):
        desk.user_desk.take({"text": "jobs: [{app: pi, user: bo}]", "file": "class.yaml"}, desk.ana)


@pytest.mark.parametrize(
    "job",
    [
        {"app": "wordcount", "input": "{secret}"},
        {"app": "wordcount", "input": "../secret.txt"},
        {"app": "wordcount", "input": "~/secret.txt"},
        {"app": "own.py:Count", **TEXT},
        {"app": "{app}:Count", "input": TEXT},
        {"app": "streaming", "mapper": "cat", "files": ["{secret}"], "input": TEXT},
        {"app": "streaming", "mapper": "cat", "folder": "{folder}", "input": TEXT},
    ],
)
def test_no_file_of_the_host_is_read_for_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    """A path in a user's job never reaches the files of the cluster's owner, although the service runs as the
    owner.
    """
    secret, app = tmp_path / "secret.txt", tmp_path / "own.py"
    secret.write_text("of the owner")
    app.write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    places = {"{secret}": str(secret), "{app}": str(app), "{folder}": str(tmp_path)}
    text = json.dumps(job)
    for key, place in places.items():
        text = text.replace(key, place)
    desk = ClassDesk(tmp_path / "out", own_code=True)
    with pytest.raises(BadInput):
        desk.take(json.loads(text), base=str(tmp_path))
    assert desk.session.uploaded == [] and desk.use()["jobs"] == 0


def test_code_of_their_own_is_a_right(tmp_path: Path) -> None:
    streaming = {"app": "streaming", "mapper": "cat", "input": TEXT}
    own = {"app": "count.py:Count", "input": TEXT}
    desk = ClassDesk(tmp_path)
    for job in (streaming, own):
        with pytest.raises(BadInput, match="ana has no right to code of their own"):
            desk.take(job, files={"count.py": APP.encode()})
    assert desk.sent() == []
    desk = ClassDesk(tmp_path, own_code=True)
    jobs = desk.take(streaming, own, files={"count.py": APP.encode(), "beside.py": b"x = 1\n"})
    assert [job.app for job in jobs] == ["streaming", "count.py:Count"]


def test_a_streaming_command_sees_no_files_of_other_users(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path, own_code=True)
    desk.take({"app": "wordcount", "input": "mine.txt"}, files={"mine.txt": b"a b"})
    (mine,) = desk.sent()
    path = str(Path(mine).relative_to("sent"))
    (job,) = desk.take({"app": "streaming", "mapper": f"cat {path}", "input": TEXT})
    assert job.params["files"] == []


# --------------------------------------------------------------------------------------------------- sent files


def test_sent_files_are_input_and_are_kept_for_the_day_to_be_repeated(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path)
    job = {"app": "wordcount", "input": "books/one.txt"}
    for _ in range(2):
        desk.take(job, files={"books/one.txt": b"a b a"})
    assert desk.session.uploaded == ["/in/one.txt"], "equal files are stored once"
    (kept,) = desk.sent()
    entry = desk.desk.scenario.given["workload"]["jobs"][0]
    assert entry["input"] == str((tmp_path / kept).resolve()) and entry["user"] == "ana"
    desk.take(job, files={"books/one.txt": b"other"})
    assert desk.session.uploaded == ["/in/one.txt", "/in/2-one.txt"] and len(desk.sent()) == 2


def test_refused_jobs_leave_no_files_and_use_no_quota(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path, tasks=3, own_code=True)
    with pytest.raises(BadInput, match=r"'own.py' was not sent|^submit: jobs\[0\].app: own.py: ") as told:
        desk.take({"app": "own.py:Nope", "input": TEXT}, files={"own.py": APP.encode()})
    assert str(tmp_path) not in str(told.value), "no path of the owner's host"
    with pytest.raises(BadInput, match="nope"):
        desk.take({"app": "nope"}, {"app": "wordcount", "input": "a.txt"}, files={"a.txt": b"a"})
    with pytest.raises(BadInput, match="5 tasks are more than ana's quota of 3"):
        desk.take(PI, files={"a.txt": b"a"})
    desk.session.broken = True
    with pytest.raises(RunFailed, match="not submitted: no node"):
        desk.take({"app": "wordcount", "input": "a.txt"}, files={"a.txt": b"a"})
    assert desk.sent() == [] and desk.use()["jobs"] == desk.use()["tasks"] == 0


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "~/x", "", ".", "a\0b"])
def test_a_sent_file_stays_below_its_folder(name: str) -> None:
    with pytest.raises(BadInput, match="is not the name of a file below"):
        unpack_files({name: ""})


def test_files_are_bounded_on_both_sides(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not base64"):
        unpack_files({"a": "?"})
    with pytest.raises(BadInput, match="more than 5 MiB"):
        unpack_files({"a": base64.b64encode(bytes(SENT_BYTES + 1)).decode()})
    (tmp_path / "big").write_bytes(bytes(SENT_BYTES + 1))
    with pytest.raises(BadInput, match="larger than 5 MiB"):
        pack_files([{"input": "big"}], tmp_path)
    for name in ("/etc/hosts", "../x"):
        with pytest.raises(BadInput, match=r"expected the name of a file below"):
            pack_files([{"input": name}], tmp_path)
    with pytest.raises(BadInput, match=r"none.txt: No such file"):
        pack_files([{"input": "none.txt"}], tmp_path)


def test_what_a_job_names_is_sent_with_it(tmp_path: Path) -> None:
    for name in ("book.txt", "map.py", "words.py", "other.py", "stop.txt"):
        (tmp_path / name).write_text("import words\n" if name in ("map.py", "own.py") else "x = 1\n")
    streaming = {
        "app": "streaming",
        "mapper": "python3 map.py --x",
        "input": "book.txt",
        "files": ["stop.txt"],
    }
    assert set(pack_files([streaming], tmp_path)) == {"book.txt", "map.py", "words.py", "stop.txt"}
    assert set(pack_files([{"app": "map.py:Count", "input": TEXT}], tmp_path)) == {"map.py", "words.py"}
    for odd in (None, [], [3], [{"input": 3, "files": "x", "mapper": "'"}], {"app": "pi"}):
        assert pack_files(odd, tmp_path) == {}


# ------------------------------------------------------------------------------------------------------- quotas


def test_jobs_and_tasks_count_until_they_end(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path, jobs=2, tasks=11)
    first, second = desk.take(PI, PI | {"submit": "1h"})
    assert desk.use() == {"jobs": 2, "tasks": 10, "input_bytes": 0}
    with pytest.raises(Denied, match=r"ana has 2 of 2 jobs in use and these jobs need 1: wait") as denied:
        desk.take(PI)
    assert denied.value.status == 429
    desk.ledger.end(first.job)
    desk.ledger.end(first.job)
    with pytest.raises(Denied, match="ana has 5 of 11 tasks in use and these jobs need 7"):
        desk.take({"app": "pi", "maps": 6, "reduces": 1})
    (third,) = desk.take(PI)
    for job in (second, third):
        desk.ledger.end(job.job)
    assert desk.use()["jobs"] == 0
    with pytest.raises(BadInput, match="3 jobs are more than ana's quota of 2"):
        desk.take(PI | {"count": 3})


def test_input_counts_once_for_who_brings_it_and_a_synthetic_jobs_own_until_it_ends(tmp_path: Path) -> None:
    """The quota counts a generated input once, and the input of a synthetic job until the job ends.

    At scale 0.5, a generated input of 4 MiB has 2 MiB in the block store.
    """
    desk = ClassDesk(tmp_path, input_bytes=3 * 2**20)
    words = {"app": "wordcount", "input": TEXT}
    desk.take(words)
    desk.take(words)
    assert desk.use()["input_bytes"] == 2 * 2**20
    synthetic = {"app": "synthetic", "maps": 1, "map": {"cpu": "1s", "read": "1MiB"}}
    (burn,) = desk.take(synthetic)
    before = desk.use()["input_bytes"]
    assert before > 2 * 2**20
    with pytest.raises(Denied, match=r"of 3.0 MiB input in the cluster and these jobs bring 2.0 MiB"):
        desk.take({"app": "wordcount", "input": TEXT | {"seed": 9}})
    desk.ledger.end(burn.job, f"/in/{burn.job}.filler")
    assert desk.use()["input_bytes"] == 2 * 2**20


def test_the_owner_has_no_quota(tmp_path: Path) -> None:
    desk = ClassDesk(tmp_path, jobs=0)
    desk.desk.take({"jobs": [PI], "user": "ana"})
    assert desk.use()["jobs"] == 0
    with pytest.raises(BadInput, match="1 jobs are more than ana's quota of 0"):
        desk.take(PI)


# --------------------------------------------------------------------------------------------------- class lists


def test_a_class_list_is_made_by_the_command_and_holds_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def users(*words: str) -> str:
        result = CliRunner().invoke(main.app, ["users", "class.yaml", *words])
        assert result.exit_code == 0, result.output
        return result.stdout

    told = users("add", "ana", "bo", "--jobs", "3", "--input", "64MiB")
    tokens = dict(line.split(": export SCHEDBED_TOKEN=") for line in told.splitlines())
    assert set(tokens) == {"ana", "bo"}
    path = tmp_path / "class.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and not any(
        t in path.read_text() for t in tokens.values()
    )
    assert "input: 64MiB" in path.read_text()
    users("set", "bo", "--own-code")
    book = UserBook(read_class(path))
    bo = book.who(tokens["bo"])
    assert bo is not None and bo.own_code and bo.quota == UserQuota(jobs=3, input_bytes=64 * 2**20)
    (new,) = json.loads(users("set", "ana", "--new-token", "--json"))["users"]
    assert UserBook(read_class(path)).who(tokens["ana"]) is None
    assert UserBook(read_class(path)).who(new["token"]) is not None
    assert [word in users("list") for word in ("ana", "bo", "64.0 MiB", "yes")] == [True] * 4
    users("remove", "ana", "bo")
    assert "no user has a token" in users("list")


def test_a_class_list_of_several_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "class.yaml"
    book = open_class(path)
    book.add("ana", UserChange())
    write_class(path, book)
    before = path.read_bytes()
    result = CliRunner().invoke(main.app, ["users", str(path), "add", "bo", "ana"])
    assert result.exit_code == 2 and "user 'ana' is there already" in result.output
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["class.yaml"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("users: {ana: {}}", r"class.yaml:1: users.ana.token_sha256: missing"),
        ("users: {ana: {token_sha256: abc}}", r"class.yaml:1: users.ana.token_sha256"),
        ("user: {}", r"class.yaml:1: user: unknown key, did you mean 'users'"),
        ("users:\n  a b: {token_sha256: '" + "0" * 64 + "'}", "user 'a b': expected letters"),
        (
            "users:\n  ana:\n    jobs: -1\n    token_sha256: '" + "0" * 64 + "'",
            r"class.yaml:3: users.ana.jobs",
        ),
        ("[]", "expected a mapping with a key 'users'"),
    ],
)
def test_a_wrong_class_list_is_refused_with_the_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "class.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=line):
        read_class(path)
    assert yaml.safe_load(text) is not None
