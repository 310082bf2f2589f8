"""Attempts on a real agent: their launch, reports, kills, and what happens at the memory limit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.harness.agents import Rig, Story, Talk, alive, attempt_spec, below, gone

pytestmark = pytest.mark.live
MIB = 2**20


def zygote_of(talk: Talk) -> psutil.Process:
    (zygote,) = psutil.Process(talk.hello.pid).children()
    return zygote


def test_an_attempt_is_run_reported_and_cleared_away(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        report = await talk.run(attempt_spec(do="burn", cpu_s=0.2))
        assert (report["state"], report["reason"]) == ("succeeded", "")
        assert report["counters"]["records_in"] == 7
        assert 0.2 <= report["counters"]["cpu_s"] < 0.4
        assert report["counters"]["memory_peak_bytes"] > MIB
        assert 0 < report["start_s"] < report["end_s"]
        assert not list((rig.root / "n1" / "attempts").iterdir())

    live(story)


def test_heartbeats_say_how_running_attempts_are(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.launch(attempt_spec(do="spin", wall_s=60))
        await talk.hear("beat")
        await talk.hear("beat")
        heartbeat = await talk.hear("beat")
        (status,) = heartbeat["running"]
        assert status["attempt"] == "job_0001_m_000000_0"
        assert (status["progress"], status["phase"]) == (0.25, "map")
        assert status["started_s"] > 0
        assert (
            0.01 < heartbeat["usage"]["cpu_util"] < 2
        )  # about 1: it spins unpaced, and a beat may be read late
        assert heartbeat["usage"]["memory_bytes"] > MIB
        await talk.send("kill", attempt=status["attempt"], reason="pre-empted")
        report = await talk.hear("ended")
        assert (report["state"], report["reason"]) == ("killed", "pre-empted")
        assert report["counters"]["cpu_s"] > 0.1
        assert (await talk.hear("beat"))["running"] == []

    live(story)


def test_an_attempt_sees_its_node_and_nothing_of_the_agent(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.send("peers", peers={"n1": talk.hello.url, "n2": "http://there"}, racks={"n2": "r2"})
        seen = json.loads((await talk.run(attempt_spec(do="look")))["reason"])
        # its line to the agent, and the listing of the folder
        assert seen["descriptors"][:3] == [0, 1, 2] and len(seen["descriptors"]) == 5
        assert seen["session"] and seen["numpy"] and seen["budget"] and seen["pace_cpu"]
        assert seen["peers"] == {"n1": talk.hello.url, "n2": "http://there"}

    live(story)


def test_a_kill_takes_the_children_of_the_attempt_along(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.launch(attempt_spec(do="with_child"))
        while not (await talk.hear("beat"))["running"][0]["started_s"] or not child_of(rig):
            pass
        child = child_of(rig)
        assert alive(child)
        await talk.send("kill", attempt="job_0001_m_000000_0", reason="test")
        await talk.hear("ended", state="killed")
        assert await gone(child)

    live(story)


def test_what_an_attempt_leaves_running_ends_with_it(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        report = await talk.run(attempt_spec(do="with_child", wait=False))
        assert report["state"] == "succeeded"
        assert await gone(child_of(rig))

    live(story)


def child_of(rig: Rig) -> int:
    path = rig.root / "n1" / "mapout" / "child"
    return int(path.read_text() or 0) if path.exists() else 0


def test_an_attempt_over_its_memory_fails_and_the_node_lives(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        fits = attempt_spec("job_0001_m_000001_0", "memory", bytes=40 * MIB, memory_bytes=64 * MIB)
        over = attempt_spec("job_0001_m_000002_0", "memory", bytes=80 * MIB, memory_bytes=64 * MIB)
        assert (await talk.run(fits))["state"] == "succeeded"
        report = await talk.run(over)
        assert (report["state"], report["reason"]) == ("failed", "over its memory limit of 64 MiB")
        assert (await talk.run(attempt_spec()))["state"] == "succeeded"

    live(story)


def test_limits_off_lets_an_attempt_have_what_it_takes(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="off")
        assert set(talk.hello.limits.values()) == {"off"}
        assert not (rig.root / "n1" / "budget").exists()
        over = attempt_spec(do="memory", bytes=80 * MIB, memory_bytes=64 * MIB)
        assert (await talk.run(over))["state"] == "succeeded"
        seen = json.loads((await talk.run(attempt_spec("job_0001_m_000001_0", "look")))["reason"])
        assert not seen["budget"] and not seen["pace_cpu"]

    live(story)


def test_an_attempt_without_a_report_fails_with_the_reason(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        reasons = {
            "die": "killed by signal 11 (SIGSEGV)",
            "exit": "ended with status 3 and no report: the last words",
            "raise": "ended with status 70 and no report: RuntimeError: thrown past the runtime",
            "raise_unheard": "ended with status 70 and no report: RuntimeError: thrown without a log",
        }
        for index, (do, reason) in enumerate(reasons.items()):
            report = await talk.run(attempt_spec(f"job_0001_m_{index:06}_0", do))
            assert (report["state"], report["reason"]) == ("failed", reason)

    live(story)


def test_a_repeated_launch_runs_once_and_nonsense_is_ignored(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        spec = attempt_spec(do="sleep", wall_s=0.3)
        await talk.launch(spec)
        await talk.launch(spec)
        await talk.send("launch", spec={"attempt": "job_0001_m_000009_0"})
        await talk.send("launch", spec=attempt_spec("job/../../x_m_000001_0").to_json())
        await talk.send("dance")
        await talk.socket.send_str("not JSON")
        await talk.hear("ended", attempt=spec.attempt)
        await talk.hear("beat")
        await talk.hear("beat")
        assert sum(message["type"] == "ended" for message in talk.heard) == 1

    live(story)


def test_a_killed_zygote_fails_what_ran_and_another_takes_over(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.launch(attempt_spec(do="sleep"))
        while not (await talk.hear("beat"))["running"][0]["started_s"]:
            pass
        zygote = zygote_of(talk)
        attempts = below(zygote.pid)
        assert attempts
        os.kill(zygote.pid, signal.SIGKILL)
        report = await talk.hear("ended")
        assert (report["state"], report["reason"]) == ("failed", "the node's warm process died")
        assert await gone(*attempts)
        assert (await talk.run(attempt_spec("job_0001_m_000001_0")))["state"] == "succeeded"

    live(story)


def test_a_job_that_is_forgotten_leaves_nothing(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        folder = rig.root / "n1"
        await talk.run(attempt_spec("job_0001_m_000000_0", "map_output", partitions=["a", "b"]))
        await talk.run(attempt_spec("job_0001_m_000001_0", "exit"))
        await talk.run(attempt_spec("job_0011_m_000000_0", "map_output", partitions=["c"]))
        assert names(folder / "mapout") == ["job_0001_m_000000_0", "job_0011_m_000000_0"]
        assert names(folder / "attempts") == ["job_0001_m_000001_0"]
        await talk.send("forget_job", job="job_0001")
        await talk.send("report_blocks")
        await talk.hear("blocks")
        assert names(folder / "mapout") == ["job_0011_m_000000_0"]
        assert names(folder / "attempts") == []

    live(story)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
