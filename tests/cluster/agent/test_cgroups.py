"""Control groups: version 2's files against a fake tree, version 1 (or 2) for real where the host allows."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.agent.cgroup_find import CgroupError, Hierarchies, find_hierarchies
from schedbed.cluster.agent.cgroups import (
    PREFIX,
    SLACK_BYTES,
    NodeCgroups,
    group_name,
    remove_node,
    start_ticks,
    sweep_leftovers,
)
from schedbed.tasks.errors import BadInput
from tests.harness.agents import PATIENCE_S, Rig, Story, attempt_spec, below, node_spec

MIB = 2**20
KERNEL_FILES = {
    1: {
        "cgroup.procs": "",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    },
    2: {
        "cgroup.procs": "",
        "cgroup.subtree_control": "",
        "cpu.max": "max 100000",
        "memory.max": "max",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    },
}


class FakeKernel:
    """Makes folders below `base` look like control groups; a control file holds what was written to it."""

    def __init__(self, base: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.version = version
        self.stubborn: dict[str, str] = {}  # files by name that do not take what is written
        mkdir, rmdir, write_text = Path.mkdir, Path.rmdir, Path.write_text

        def fake_mkdir(path: Path, *arguments: Any, **options: Any) -> None:
            new = not path.exists()
            mkdir(path, *arguments, **options)
            if new and base in (path, *path.parents):
                self.fill(path)
                for parent in path.parents:
                    if base in parent.parents and not (parent / "cgroup.procs").exists():
                        self.fill(parent)

        def fake_rmdir(path: Path) -> None:
            if base not in path.parents:
                return rmdir(path)
            if any(child.is_dir() for child in path.iterdir()):
                raise OSError(39, "Directory not empty")
            return shutil.rmtree(path)

        def fake_write(path: Path, text: str, *arguments: Any, **options: Any) -> int:
            if path.name == "cgroup.subtree_control":
                text = text.replace("+", "")
            elif path.name == "cpu.max" and " " not in text:
                text = f"{text} 100000"
            return write_text(path, self.stubborn.get(path.name, text), *arguments, **options)

        monkeypatch.setattr(Path, "mkdir", fake_mkdir)
        monkeypatch.setattr(Path, "rmdir", fake_rmdir)
        monkeypatch.setattr(Path, "write_text", fake_write)
        base.mkdir(parents=True, exist_ok=True)

    def fill(self, folder: Path) -> None:
        for name, text in KERNEL_FILES[self.version].items():
            with (folder / name).open("w") as file:
                file.write(text)

    def group(self, **changes: Any) -> NodeCgroups:
        plain = {"cores": 2, "core_speed": 0.1, "owner_pid": os.getpid()}
        return NodeCgroups(Hierarchies(self.version, self.base, self.base), "r1", "n1", **plain | changes)

    @property
    def node(self) -> Path:
        return self.base / f"{PREFIX}r1" / group_name("n1", os.getpid())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeKernel]:
    return lambda version: FakeKernel(tmp_path / "cgroup" / "ours", version, monkeypatch)


def cpu_of(kernel: FakeKernel, folder: Path) -> str:
    if kernel.version == 2:
        return (folder / "cpu.max").read_text()
    return " ".join((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))


@pytest.mark.parametrize("version", [1, 2])
def test_a_node_and_its_slots_get_their_quotas(fake: Callable[[int], FakeKernel], version: int) -> None:
    kernel = fake(version)
    group = kernel.group()
    group.create()
    assert cpu_of(kernel, kernel.node) == "4000 20000"  # 2 cores of a tenth, 20 ms periods
    assert group.slot(1) == (str(kernel.node / "slot-1" / "cgroup.procs"),)
    assert [cpu_of(kernel, kernel.node / f"slot-{index}") for index in (0, 1)] == ["2000 20000"] * 2
    group.limit_memory(1, 64 * MIB)
    name = "memory.limit_in_bytes" if version == 1 else "memory.max"
    assert int((kernel.node / "slot-1" / name).read_text()) == 64 * MIB + SLACK_BYTES
    group.set_cpu_factor(0.5)
    assert cpu_of(kernel, kernel.node) == "2000 20000"
    assert cpu_of(kernel, kernel.node / "slot-0") == "1000 20000"
    group.set_cpu_factor(0.1)
    assert cpu_of(kernel, kernel.node / "slot-0") == "1000 100000"  # no quota is below 1 ms
    if version == 2:
        assert (kernel.node / "cgroup.subtree_control").read_text().split() == ["cpu", "memory"]
    group.remove()
    assert not (kernel.base / f"{PREFIX}r1").exists()


@pytest.mark.parametrize(
    ("version", "file", "held"), [(1, "cpu.cfs_quota_us", "-1"), (2, "cpu.max", "max 100000")]
)
def test_a_limit_that_does_not_take_is_noticed(
    fake: Callable[[int], FakeKernel], version: int, file: str, held: str
) -> None:
    kernel = fake(version)
    kernel.stubborn[file] = held
    with pytest.raises(CgroupError, match="after 4000 20000 was written"):
        kernel.group().create()
    assert not (kernel.base / f"{PREFIX}r1").exists()


@pytest.mark.parametrize(("version", "file"), [(1, "memory.limit_in_bytes"), (2, "memory.max")])
def test_a_memory_limit_that_does_not_take_is_noticed(
    fake: Callable[[int], FakeKernel], version: int, file: str
) -> None:
    kernel = fake(version)
    group = kernel.group()
    group.create()
    group.slot(0)
    kernel.stubborn[file] = "max"
    with pytest.raises(CgroupError, match="is max after"):
        group.limit_memory(0, MIB)


@pytest.mark.parametrize(("version", "file"), [(1, "memory.oom_control"), (2, "memory.events")])
def test_kills_for_want_of_memory_are_counted(
    fake: Callable[[int], FakeKernel], version: int, file: str
) -> None:
    kernel = fake(version)
    group = kernel.group()
    group.create()
    group.slot(0)
    assert group.oom_kills(0) == 0
    (kernel.node / "slot-0" / file).write_text("oom 7\noom_kill 2\noom_group_kill 5\n")
    assert group.oom_kills(0) == 2
    assert group.oom_kills(9) == 0


def proc(tmp_path: Path, cgroup: str, mountinfo: str) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mountinfo.replace("TOP", str(tmp_path)))
    return folder


def test_version_1_is_found_below_our_own_group(tmp_path: Path) -> None:
    """A container's mount shows only a part of the hierarchy: its root is cut off our path."""
    (tmp_path / "cpu" / "mine").mkdir(parents=True)
    (tmp_path / "memory" / "other").mkdir(parents=True)
    where = proc(
        tmp_path,
        "4:memory:/other\n1:cpu,cpuacct:/docker/x/mine\n0::/\n",
        "31 25 0:27 /docker/x TOP/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 25 0:28 / TOP/memory rw shared:9 - cgroup cgroup rw,memory\n"
        "33 25 0:29 / TOP/unified rw - cgroup2 cgroup2 rw\n",
    )
    found = find_hierarchies(where)
    assert found == Hierarchies(1, tmp_path / "cpu" / "mine", tmp_path / "memory" / "other")
    assert len(found.bases) == 2


MOUNT_2 = "33 25 0:29 / TOP/cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_2_takes_our_own_group_or_the_one_above(tmp_path: Path) -> None:
    ours = tmp_path / "cg" / "user" / "app.scope"
    ours.mkdir(parents=True)
    for folder, controllers in ((ours, None), (ours.parent, "cpu memory pids")):
        (folder / "cgroup.procs").write_text("")
        if controllers is not None:
            (folder / "cgroup.subtree_control").write_text(controllers)
    where = proc(tmp_path, "0::/user/app.scope\n", MOUNT_2)
    assert find_hierarchies(where) == Hierarchies(2, ours.parent, ours.parent)
    (ours / "cgroup.subtree_control").write_text("memory cpu")
    assert find_hierarchies(where) == Hierarchies(2, ours, ours)


def test_version_2_that_is_not_delegated_says_so(tmp_path: Path) -> None:
    (tmp_path / "cg").mkdir()
    where = proc(tmp_path, "0::/\n", MOUNT_2)
    with pytest.raises(CgroupError, match="no subtree is delegated to us"):
        find_hierarchies(where)


def test_a_host_without_cgroups_says_so(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="no cgroup hierarchy"):
        find_hierarchies(proc(tmp_path, "0::/\n", "1 1 0:1 / / rw - ext4 /dev/vda rw\n"))
    with pytest.raises(CgroupError, match="no cgroups on this host"):
        find_hierarchies(tmp_path / "nowhere")


# -------------------------------------------------------------- the real kernel


@pytest.fixture
def group() -> Iterator[NodeCgroups]:
    """A real group of 2 cores at a tenth; skips where none can be made."""
    try:
        made = NodeCgroups(
            find_hierarchies(), f"test-{os.getpid()}", "n1", cores=2, core_speed=0.1, owner_pid=os.getpid()
        )
        made.create()
    except CgroupError as error:
        pytest.skip(str(error))
    yield made
    made.remove()
    assert not any(base.glob(f"{PREFIX}test-{os.getpid()}") for base in made.where.bases if not base.exists())


def spin_in(procs: tuple[str, ...], wall_s: float) -> tuple[int, int]:
    """A child that joins the groups and spins: its pid, and a descriptor that will hold the share it got."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        for path in procs:
            Path(path).write_text("0")
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() - began < wall_s:
            pass
        share = (time.process_time() - used) / (time.monotonic() - began)
        os.write(writer, str(share).encode())
    finally:
        os._exit(0)


@pytest.mark.live
@pytest.mark.parametrize(("attempts", "share"), [(1, 0.1), (3, 0.2)])
def test_the_kernel_holds_a_slot_to_a_core_and_a_node_to_its_cores(
    group: NodeCgroups, attempts: int, share: float
) -> None:
    children = [spin_in(group.slot(index), 2.0) for index in range(attempts)]
    got = sum(float(os.read(reader, 100)) for _, reader in children)
    for pid, reader in children:
        os.waitpid(pid, 0)
        os.close(reader)
    assert 0.7 * share < got < 1.05 * share  # a host that is busy elsewhere gives less, never more


@pytest.mark.live
def test_a_group_whose_owner_died_is_swept_with_what_runs_in_it(group: NodeCgroups) -> None:
    pid, reader = spin_in(group.slot(0), 60.0)
    owner = os.fork()
    if not owner:
        time.sleep(60)
        os._exit(0)
    orphan = NodeCgroups(group.where, "test-orphan", "n2", cores=1, core_speed=0.5, owner_pid=owner)
    orphan.create()
    stray, reader_2 = spin_in(orphan.slot(0), 60.0)
    assert not [name for name in sweep_leftovers() if "test-" in name]
    os.kill(owner, 9)
    os.waitpid(owner, 0)
    swept = [name for name in sweep_leftovers() if "test-" in name]
    assert len(swept) == 1 and swept[0].startswith(f"{PREFIX}test-orphan/n2.{owner}.")
    assert os.waitstatus_to_exitcode(os.waitpid(stray, 0)[1]) == -9
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    remove_node(f"test-{os.getpid()}", "n1", group_name("n1", os.getpid()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    os.close(reader)
    os.close(reader_2)


def test_a_process_has_a_start_and_none_has_not() -> None:
    assert start_ticks(os.getpid()) and start_ticks(2**22 + 1) is None


@pytest.mark.live
def test_attempts_in_groups_are_held_and_reported(group: NodeCgroups, live: Callable[[Story], None]) -> None:
    if group.where.memory is None:
        pytest.skip("no memory controller here")

    async def story(rig: Rig) -> None:
        talk = await rig.start(node_spec(core_speed=0.2), limits="cgroup")
        assert talk.hello.limits["cpu"] == talk.hello.limits["memory"] == f"cgroup v{group.where.version}"
        assert talk.hello.limits["disk"] == talk.hello.limits["network"] == "software"
        report = await talk.run(attempt_spec(do="burn", cpu_s=0.3))
        assert report["end_s"] - report["start_s"] > 0.3 / 0.2 * 0.9
        size = 64 * MIB
        shared = attempt_spec("job_0001_m_000001_0", "shared_memory", bytes=2 * size, memory_bytes=size)
        report = await talk.run(shared)
        assert (report["state"], report["reason"]) == ("failed", "over its memory limit of 64 MiB")
        fits = attempt_spec("job_0001_m_000002_0", "shared_memory", bytes=size // 2, memory_bytes=size)
        assert (await talk.run(fits))["state"] == "succeeded"

    live(story)


@pytest.mark.live
def test_forks_that_wait_in_their_slot_are_used_and_may_die(
    group: NodeCgroups, live: Callable[[Story], None]
) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="cgroup")
        zygote, *_ = below(talk.hello.pid)
        async with asyncio.timeout(PATIENCE_S):
            while len(spares := below(zygote)) < 3:  # two map slots, one reduce slot
                await asyncio.sleep(0.02)
        inside = Path(f"/proc/{spares[0]}/cgroup")
        while f"{PREFIX}{rig.run_id}/" not in inside.read_text():
            await asyncio.sleep(0.02)
        await talk.launch(attempt_spec(do="sleep"))
        while not (await talk.hear("beat"))["running"][0]["started_s"]:
            pass
        assert set(spares) <= set(below(zygote))  # one of them is the attempt now
        await talk.send("kill", attempt="job_0001_m_000000_0", reason="test")
        await talk.hear("ended", state="killed")
        killed = below(zygote)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        while set(killed) & set(below(zygote)):  # until the zygote has taken leave of them
            await asyncio.sleep(0.02)
        reports = [await talk.run(attempt_spec(f"job_0001_m_{index:06}_0")) for index in (1, 2, 3)]
        assert [report["state"] for report in reports] == ["succeeded"] * 3

    live(story)


@pytest.mark.live
@pytest.mark.parametrize("speed", [1e12, 1e-4])  # quotas that the kernel refuses
def test_cgroup_where_it_is_impossible_is_bad_input(live: Callable[[Story], None], speed: float) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine(node_spec(core_speed=speed), limits="cgroup")
        with pytest.raises(BadInput, match="n1: limits: cgroup is impossible on this host: "):
            await machine.start()
        assert not machine.is_alive()

    live(story)
