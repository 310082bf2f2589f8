"""Process machines: when any process is killed, no process is left, and only the folder remains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import schedbed
from schedbed.cluster.agent.cgroups import PREFIX, CgroupError, find_hierarchies
from schedbed.cluster.machines.process import MachineFailed
from tests.harness.agents import PATIENCE_S, Rig, Story, Talk, alive, attempt_spec, below, gone

pytestmark = pytest.mark.live


def groups_of(rig: Rig) -> list[Path]:
    """Return the folders of the control groups of the rig's run."""
    try:
        bases = find_hierarchies().bases
    except CgroupError:
        return []
    return [path for base in bases for path in base.glob(f"{PREFIX}{rig.run_id}")]


async def busy(talk: Talk) -> list[int]:
    """Launch an attempt that sleeps; return the ids of all processes of the machine once the attempt runs."""
    await talk.launch(attempt_spec(do="sleep"))
    while not ((await talk.hear("beat"))["running"] or [{"started_s": None}])[0]["started_s"]:
        pass
    return [talk.hello.pid, *below(talk.hello.pid)]


@pytest.mark.parametrize("how", ["stop", "kill", "agent killed", "input closed", "shutdown"])
def test_nothing_is_left_however_it_ends(live: Callable[[Story], None], how: str) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="auto")
        pids = await busy(talk)
        assert len(pids) >= 3 and all(map(alive, pids))
        if how == "stop":
            await talk.machine.stop()
        elif how == "kill":
            await talk.machine.kill()
        elif how == "agent killed":
            os.kill(talk.hello.pid, signal.SIGKILL)
            assert await gone(*pids[1:])
            assert not talk.machine.is_alive()
        elif how == "shutdown":
            await talk.send("shutdown")
        else:
            assert talk.machine._process and talk.machine._process.stdin
            talk.machine._process.stdin.close()
        assert await gone(*pids)
        await talk.machine.stop()
        assert not groups_of(rig)
        assert not talk.machine.is_alive()

    live(story)


@pytest.mark.parametrize("limits", ["auto", "software"])
def test_a_kill_takes_along_what_attempts_have_started(live: Callable[[Story], None], limits: str) -> None:
    """A kill of the machine also ends an attempt's children that have sessions of their own."""

    async def story(rig: Rig) -> None:
        talk = await rig.start(limits=limits)
        await talk.launch(attempt_spec(do="children_spin"))
        async with asyncio.timeout(PATIENCE_S):
            while len(spinning := [pid for pid in below(talk.hello.pid) if "while True" in command(pid)]) < 2:
                await asyncio.sleep(0.05)
        await talk.machine.kill()
        assert await gone(*spinning)

    live(story)


def command(pid: int) -> str:
    """Return the command line of a process, empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_all_ends_when_the_holder_of_the_machine_is_killed(live: Callable[[Story], None]) -> None:
    script = """
import asyncio, json, sys
from pathlib import Path
from tests.harness.agents import Rig
async def main():
    rig = Rig(Path(sys.argv[1]))
    talk = await rig.start(limits="auto")
    print(json.dumps([rig.run_id, talk.hello.pid]), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""

    async def story(rig: Rig) -> None:
        top = str(Path(schedbed.__file__).parents[1])
        command = [sys.executable, "-c", script, str(rig.root)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": top}
        ) as holder:
            assert holder.stdout
            rig.run_id, agent = json.loads(await asyncio.to_thread(holder.stdout.readline))
            pids = [agent, *below(agent)]
            holder.kill()
        assert await gone(*pids)
        assert not groups_of(rig)

    live(story)


def test_two_agents_never_share_a_root(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        second = rig.machine()
        with pytest.raises(MachineFailed, match="in use by another agent"):
            await second.start()
        assert not second.is_alive()
        assert (await talk.run(attempt_spec()))["state"] == "succeeded"

    live(story)


def test_a_machine_on_the_same_root_finds_its_blocks_but_no_attempts(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.put("/blocks/blk_1", b"x" * 100_000)
        await talk.run(attempt_spec(do="map_output", partitions=["a"]))
        await busy_again(talk)
        await talk.machine.kill()
        folder = rig.root / "n1"
        (folder / "blocks" / "blk_2.77-1.tmp").write_bytes(b"half")
        (folder / "blocks" / "blk_3.crc").write_bytes(b"1234")
        again = await rig.start()
        assert again.first["blocks"] == [{"block": "blk_1", "length": 100_000}]
        assert await again.get("/blocks/blk_1") == (200, b"x" * 100_000)
        assert sorted(path.name for path in (folder / "blocks").iterdir()) == ["blk_1", "blk_1.crc"]
        assert not list((folder / "attempts").iterdir()) and not list((folder / "mapout").iterdir())

    live(story)


async def busy_again(talk: Talk) -> None:
    await talk.launch(attempt_spec("job_0001_m_000005_0", "sleep"))
    await talk.hear("beat")


def test_a_frozen_machine_is_silent_until_it_thaws(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.hear("beat")
        await talk.machine.freeze()
        with pytest.raises(TimeoutError):
            await talk.hear("none", timeout_s=0.7)  # takes what was under way, then waits in vain
        assert talk.machine.is_alive()
        await talk.machine.thaw()
        async with asyncio.timeout(PATIENCE_S):
            while (await talk.get("/peers"))[0] != 200:
                pass
        await talk.machine.freeze()
        await talk.machine.stop()
        assert await gone(talk.hello.pid)

    live(story)


def test_a_start_that_fails_says_why_and_leaves_nothing(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine(runner="no.such:runner")
        with pytest.raises(MachineFailed, match="warm process ended"):
            await machine.start()
        assert not machine.is_alive()
        await machine.stop()

    live(story)


def test_the_kernel_counts_what_children_use_that_nobody_waits_for(live: Callable[[Story], None]) -> None:
    if not (controllers := _usable_controllers()):
        pytest.skip("this user may make no control groups on this host")

    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="cgroup")
        shared = 32 * 2**20
        spec = attempt_spec(do="children", wall_s=2.0, bytes=shared, memory_bytes=128 * 2**20)
        before = talk.machine.totals()
        await talk.launch(spec)
        await talk.hear("beat")
        async with asyncio.timeout(PATIENCE_S):
            while (held := talk.machine.totals()).memory_bytes is not None and held.memory_bytes < shared:
                await asyncio.sleep(0.05)
        report = await talk.hear("ended", attempt=spec.attempt)
        after = talk.machine.totals()
        assert report["state"] == "succeeded"
        assert before.cpu_s is not None and after.cpu_s is not None
        # The attempt itself slept. Its two children were let burn about half a core for two seconds.
        assert after.cpu_s - before.cpu_s > 0.3
        assert (after.memory_bytes is not None) == ("memory" in controllers)

    live(story)


def _usable_controllers() -> frozenset[str]:
    try:
        return frozenset(find_hierarchies().folders)
    except CgroupError:
        return frozenset()
