"""Control groups: fake trees of files for both versions, and real groups where the host allows them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.agent.cgroups import (
    PREFIX,
    WEIGHTS,
    CgroupError,
    Hierarchies,
    PathFiles,
    Quota,
    apply_quota,
    find_hierarchies,
    group_name,
    node_folders,
    remove_node,
    slot_groups,
    start_ticks,
    sweep_leftovers,
)
from schedbed.cluster.agent.limits import COOPERATING
from schedbed.cluster.agent.node_groups import PROCESSES, SLACK_BYTES, NodeGroups
from schedbed.cluster.agent.warm.fork import can_drop
from schedbed.tasks.errors import BadInput
from tests.harness.agents import PATIENCE_S, Rig, Story, attempt_spec, below, node_spec

MIB = 2**20
ALL = {1: ("cpu", "cpuacct", "memory", "pids"), 2: ("cpu", "memory", "pids")}
KERNEL_FILES = {
    1: {
        "cgroup.procs": "",
        "cpuacct.usage": "0",
        "pids.max": "max",
        "pids.events": "max 0\n",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    },
    2: {
        "cgroup.procs": "",
        "cgroup.subtree_control": "",
        "cpu.max": "max 100000",
        "cpu.stat": "usage_usec 0\nuser_usec 0\n",
        "memory.oom.group": "0",
        "pids.max": "max",
        "pids.events": "max 0\n",
        "memory.max": "max",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    },
}


class FakeKernel:
    """Makes folders below `base` behave like control groups: a control file contains its last value."""

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

    def files(self) -> PathFiles:
        where = Hierarchies(self.version, dict.fromkeys(ALL[self.version], self.base))
        return PathFiles(where, "r1", "n1", os.getpid())

    def group(self, slots: int = 1, **changes: Any) -> NodeGroups:
        """Return the created and opened control groups of a node with `slots` slots."""
        files = self.files()
        files.create(slot_groups(slots))
        plain = {"cores": 2, "core_speed": 0.1}
        groups = NodeGroups(files, slot_groups(slots), **plain | changes)
        groups.open()
        return groups

    def uses(self, slot: int, cpu_s: float) -> None:
        """Set the CPU time counted for the group of `slot` to `cpu_s` seconds."""
        name, text = (
            ("cpuacct.usage", f"{cpu_s * 1e9:.0f}")
            if self.version == 1
            else ("cpu.stat", f"usage_usec {cpu_s * 1e6:.0f}")
        )
        (self.node / f"slot-{slot}" / name).write_text(text)

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


def begin(groups: NodeGroups, name: str) -> None:
    """Start the attempt `name` in its group, with the calls that its process and the agent make."""
    apply_quota(groups.hold(name))
    groups.begun(name, 0.0)


def quota_of(kernel: FakeKernel, slot: int) -> float | None:
    """Return the number of host cores that a slot may use, or None if the slot has no limit."""
    quota, period = cpu_of(kernel, kernel.node / f"slot-{slot}").split()
    return None if quota in ("-1", "max") else int(quota) / int(period)


@pytest.mark.parametrize("version", [1, 2])
def test_slots_are_made_and_are_open_until_an_attempt_begins(
    fake: Callable[[int], FakeKernel], version: int
) -> None:
    kernel = fake(version)
    groups = kernel.group(slots=2)
    made = sorted(path.name for path in kernel.node.iterdir() if path.is_dir())
    assert made == ["slot-0", "slot-1", "slot-2", "slot-3"]
    assert [quota_of(kernel, slot) for slot in range(4)] == [None] * 4
    assert (kernel.node / "slot-3" / "pids.max").read_text() == str(PROCESSES)
    begin(groups, "slot-1")
    assert cpu_of(kernel, kernel.node / "slot-1") == "2000 20000"  # a core of a tenth, 20 ms periods
    groups.limit_memory("slot-1", 64 * MIB)
    name = "memory.limit_in_bytes" if version == 1 else "memory.max"
    assert int((kernel.node / "slot-1" / name).read_text()) == 64 * MIB + SLACK_BYTES
    groups.set_cpu_factor(0.5)
    assert cpu_of(kernel, kernel.node / "slot-1") == "1000 20000"
    groups.set_cpu_factor(0.1)
    assert cpu_of(kernel, kernel.node / "slot-1") == "1000 100000"  # no quota is below 1 ms
    groups.ease("slot-1")
    assert quota_of(kernel, 1) == 0.2  # not open: who only says that it has ended gains next to nothing
    groups.free("slot-1")
    assert quota_of(kernel, 1) is None
    if version == 2:
        assert set((kernel.node / "cgroup.subtree_control").read_text().split()) == {"cpu", "memory", "pids"}
        assert (kernel.node / "slot-0" / "memory.oom.group").read_text() == "1"
    kernel.files().remove()
    assert not (kernel.base / f"{PREFIX}r1").exists()


@pytest.mark.parametrize("version", [1, 2])
def test_more_attempts_than_cores_share_them_evenly(fake: Callable[[int], FakeKernel], version: int) -> None:
    kernel, now_s = fake(version), [100.0]
    groups = kernel.group(slots=3, clock=lambda: now_s[0])
    for slot in range(2):
        begin(groups, f"slot-{slot}")
    assert [quota_of(kernel, slot) for slot in range(2)] == [0.1, 0.1]
    begin(groups, "slot-2")
    assert [quota_of(kernel, slot) for slot in range(3)] == pytest.approx([0.2 / 3] * 3, rel=0.001)
    groups.free("slot-0")
    assert [quota_of(kernel, slot) for slot in range(3)] == [None, 0.1, 0.1]


@pytest.mark.parametrize("version", [1, 2])
def test_an_attempt_begins_with_the_share_that_it_has_by_then(
    fake: Callable[[int], FakeKernel], version: int
) -> None:
    kernel = fake(version)
    groups = kernel.group(slots=3)
    begin(groups, "slot-0")
    given = [groups.hold(name) for name in ("slot-1", "slot-2")]
    assert quota_of(kernel, 1) is None  # its fork's setup is not the attempt's
    for quota in given:
        apply_quota(quota)
    assert quota_of(kernel, 1) == 0.1  # as when it was ordered
    for name in ("slot-1", "slot-2"):
        groups.begun(name, 0.0)
    assert [quota_of(kernel, slot) for slot in range(3)] == pytest.approx([0.2 / 3] * 3, rel=0.001)


def test_a_limit_that_a_fork_cannot_lay_down_is_noticed() -> None:
    with pytest.raises(OSError, match="the limit is  after 2000 was written"):
        apply_quota(Quota(os.open(os.devnull, os.O_RDWR), "2000"))


def test_what_one_leaves_of_its_share_the_others_get(fake: Callable[[int], FakeKernel]) -> None:
    kernel, now_s = fake(1), [100.0]
    groups = kernel.group(slots=3, clock=lambda: now_s[0])
    for slot in range(3):
        begin(groups, f"slot-{slot}")
    used = [0.0, 0.0, 0.0]
    for _ in range(4):  # the third waits for its disk most of the time
        now_s[0] += 0.25
        for slot in range(3):
            used[slot] += 0.25 * min(quota_of(kernel, slot) or 0.0, 0.01 if slot == 2 else 1.0)
            kernel.uses(slot, used[slot])
        groups.rebalance()
    quotas = [quota_of(kernel, slot) or 0.0 for slot in range(3)]
    assert quotas[0] == quotas[1] == pytest.approx((0.2 - 0.01) / 2, rel=0.001)
    assert quotas[2] == pytest.approx(0.2 / 3 / 2, rel=0.001)  # half of an even share, to wake up with
    now_s[0] += 0.25
    for slot in range(3):  # now it uses all that it gets
        kernel.uses(slot, used[slot] + 0.25 * quotas[slot])
    groups.rebalance()
    assert [quota_of(kernel, slot) for slot in range(3)] == pytest.approx([0.2 / 3] * 3, rel=0.2)


def test_a_node_pays_back_what_it_had_above_its_rate(fake: Callable[[int], FakeKernel]) -> None:
    kernel, now_s = fake(1), [100.0]
    groups = kernel.group(slots=3, clock=lambda: now_s[0])
    for slot in range(3):
        begin(groups, f"slot-{slot}")
    now_s[0] += 1.0
    for slot in range(3):
        kernel.uses(slot, 0.22 / 3)  # a tenth too much
    groups.rebalance()
    assert sum(quota_of(kernel, slot) or 0.0 for slot in range(3)) == pytest.approx(0.18, rel=0.01)


@pytest.mark.parametrize(
    ("version", "file", "held"), [(1, "cpu.cfs_quota_us", "-1"), (2, "cpu.max", "max 100000")]
)
def test_a_limit_that_does_not_take_is_noticed(
    fake: Callable[[int], FakeKernel], version: int, file: str, held: str
) -> None:
    kernel = fake(version)
    kernel.stubborn[file] = held
    with pytest.raises(CgroupError, match=r"slot-0: .* is .* after 2000.* was written"):
        kernel.group()


@pytest.mark.parametrize(("version", "file"), [(1, "memory.limit_in_bytes"), (2, "memory.max")])
def test_a_memory_limit_that_does_not_take_is_noticed(
    fake: Callable[[int], FakeKernel], version: int, file: str
) -> None:
    kernel = fake(version)
    groups = kernel.group()
    kernel.stubborn[file] = "max"
    with pytest.raises(CgroupError, match="is max after"):
        groups.limit_memory("slot-0", MIB)


@pytest.mark.parametrize(("version", "file"), [(1, "memory.oom_control"), (2, "memory.events")])
def test_what_the_kernel_refuses_is_counted(
    fake: Callable[[int], FakeKernel], version: int, file: str
) -> None:
    kernel = fake(version)
    groups = kernel.group()
    assert groups.oom_kills("slot-0") == groups.refused_forks("slot-0") == 0
    (kernel.node / "slot-0" / file).write_text("oom 7\noom_kill 2\noom_group_kill 5\n")
    (kernel.node / "slot-0" / "pids.events").write_text("max 3\n")
    assert (groups.oom_kills("slot-0"), groups.refused_forks("slot-0")) == (2, 3)
    kernel.uses(0, 1.5)
    assert groups.cpu_s("slot-0") == 1.5


def test_the_folders_of_a_node_are_found(fake: Callable[[int], FakeKernel]) -> None:
    kernel = fake(1)
    kernel.group()
    where = Hierarchies(1, dict.fromkeys(ALL[1], kernel.base))
    version, found = node_folders("r1", group_name("n1", os.getpid()), where)
    assert version == 1 and found["cpuacct"] == found["memory"] == kernel.node
    assert node_folders("r1", "n2.1.1", where) == (1, {})


def proc(tmp_path: Path, cgroup: str, mountinfo: str) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mountinfo.replace("TOP", str(tmp_path)))
    return folder


def test_version_1_is_found_below_our_own_group(tmp_path: Path) -> None:
    """The groups of version 1 are found in a container, where only a part of the hierarchy is mounted.

    The part of the path above the mounted root is removed from the path of this process's group.
    """
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
    mine = tmp_path / "cpu" / "mine"
    assert found == Hierarchies(1, {"cpu": mine, "cpuacct": mine, "memory": tmp_path / "memory" / "other"})
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
    assert find_hierarchies(where) == Hierarchies(2, dict.fromkeys(ALL[2], ours.parent))
    (ours / "cgroup.subtree_control").write_text("memory cpu")
    assert find_hierarchies(where).cpu == ours


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


NAMES = slot_groups(3)


@pytest.fixture
def files() -> Iterator[PathFiles]:
    """Yield real control groups for three slots, or skip the test if the host does not allow any."""
    try:
        made = PathFiles(find_hierarchies(), f"test-{os.getpid()}", "n1", os.getpid())
        made.create(NAMES)
        NodeGroups(made, NAMES, cores=2, core_speed=0.1).open()
    except CgroupError as error:
        pytest.skip(str(error))
    yield made
    made.remove()
    assert not any((base / f"{PREFIX}test-{os.getpid()}").exists() for base in made.where.bases)


def test_a_run_has_the_weight_of_ten_processes(files: PathFiles) -> None:
    name, weight = WEIGHTS[files.version]
    assert (files.where.cpu / f"{PREFIX}test-{os.getpid()}" / name).read_text().strip() == weight


@pytest.fixture
def children() -> Iterator[Callable[[PathFiles, str], int]]:
    """Yield a function that starts a CPU-bound process in a group; all processes are killed at the end."""
    pids: list[int] = []

    def spin_in(files: PathFiles, name: str) -> int:
        pid = os.fork()
        if not pid:
            try:
                while True:
                    pass
            finally:
                os._exit(1)
        pids.append(pid)
        files.move(name, pid)
        return pid

    yield spin_in
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.live
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_kernel_holds_a_slot_to_a_core_and_a_node_to_its_cores(
    files: PathFiles, children: Callable[[PathFiles, str], int], attempts: int
) -> None:
    groups = NodeGroups(files, NAMES, cores=2, core_speed=0.1)
    groups.open()
    if groups.cpu_s() is None:
        pytest.skip("nobody counts CPU time here")
    for name in NAMES[:attempts]:
        begin(groups, name)
        children(files, name)
    began_s, before = time.monotonic(), [groups.cpu_s(name) or 0.0 for name in NAMES[:attempts]]
    while time.monotonic() - began_s < 3.0:
        time.sleep(0.25)
        groups.rebalance()
    elapsed_s = time.monotonic() - began_s
    used = [(groups.cpu_s(name) or 0.0) - b for name, b in zip(NAMES, before, strict=False)]
    share = min(0.1 * attempts, 0.2)
    assert sum(used) < 1.05 * share * elapsed_s  # a host that is busy elsewhere gives less, never more
    assert max(used) / min(used) < 1.2


@pytest.mark.live
def test_a_group_whose_owner_died_is_swept_with_what_runs_in_it(
    files: PathFiles, children: Callable[[PathFiles, str], int]
) -> None:
    pid = children(files, "slot-0")
    owner = os.fork()
    if not owner:
        time.sleep(60)
        os._exit(0)
    orphan = PathFiles(files.where, "test-orphan", "n2", owner)
    orphan.create(["slot-0"])
    stray = children(orphan, "slot-0")
    assert not [name for name in sweep_leftovers() if "test-" in name]
    os.kill(owner, 9)
    os.waitpid(owner, 0)
    swept = [name for name in sweep_leftovers() if "test-" in name]
    assert len(swept) == 1 and swept[0].startswith(f"{PREFIX}test-orphan/n2.{owner}.")
    assert os.waitstatus_to_exitcode(os.waitpid(stray, 0)[1]) == -9
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    remove_node(f"test-{os.getpid()}", "n1", group_name("n1", os.getpid()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9


def test_a_process_has_a_start_and_none_has_not() -> None:
    assert start_ticks(os.getpid()) and start_ticks(2**22 + 1) is None


@pytest.mark.live
def test_attempts_in_groups_are_held_and_reported(files: PathFiles, live: Callable[[Story], None]) -> None:
    if "memory" not in files.where.folders:
        pytest.skip("no memory controller here")

    async def story(rig: Rig) -> None:
        talk = await rig.start(node_spec(core_speed=0.2), limits="cgroup")
        own = "" if can_drop() else f" {COOPERATING}"
        assert (
            talk.hello.limits["cpu"] == talk.hello.limits["memory"] == f"cgroup v{files.where.version}{own}"
        )
        assert talk.hello.limits["disk"] == talk.hello.limits["network"] == f"software {COOPERATING}"
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
    files: PathFiles, live: Callable[[Story], None]
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
        while not any(status["started_s"] for status in (await talk.hear("beat"))["running"]):
            pass  # beats from before the launch are among them
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
