"""The total CPU time of a node's attempts, which never decreases."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.attempts import Attempts
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.warm.zygote_link import JsonLine
from schedbed.cluster.clock import RunClock
from tests.harness.agents import PATIENCE_S, attempt_spec, node_spec

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"


class Zygote:
    """A fake of the process that forks attempts.

    It sends the agent the messages given by the test. Its only fork is the process that the test has started.
    """

    pid = 1
    say: Callable[[dict[str, Any]], None]

    def __init__(self) -> None:
        self.lines: list[socket.socket] = []

    async def connect(self, setup: Any, on_message: Callable[[dict[str, Any]], None], on_end: Any) -> None:
        self.say = on_message

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Keep the attempt's end of the socket pair, if the message comes with one."""
        if descriptor is not None:
            self.lines.append(socket.socket(fileno=descriptor))

    async def close(self) -> None:
        for line in self.lines:
            line.close()


async def heard(line: socket.socket) -> bytes:
    """Return the next bytes that the agent sends on the socket `line`."""
    line.setblocking(False)
    return await asyncio.get_running_loop().sock_recv(line, 65536)


def test_a_process_that_has_ended_keeps_its_time_until_its_report_comes(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path))


async def story(root: Path) -> None:
    where = AgentDir(root)
    for folder in (where.attempts, where.mapout):
        folder.mkdir()
    config = AgentConfig(
        node=node_spec(), root=root, token="t", epoch_s=0.0, heartbeat_s=0.2, limits="off", run_id="r"
    )
    zygote: Any = Zygote()
    reports: list[dict[str, Any]] = []
    attempts = Attempts(
        where,
        NodeLimits(config, where),
        RunClock(0.0),
        start_zygote=lambda: zygote,
        setup=dict,
        publish=reports.append,
        on_fatal=lambda why: None,
    )
    await attempts.open(zygote)
    spec = attempt_spec()
    attempts.launch(spec.to_json())
    line = zygote.lines[0]
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        zygote.say({"type": "parked", "pid": process.pid})
        assert json.loads(await heard(line))["spec"]["attempt"] == spec.attempt
        assert attempts.cpu_s() == 0  # its own code has not begun
        line.send(b'{"type": "begin", "setup_cpu_s": 0.0}\n')
        for _ in range(3):
            await asyncio.sleep(0)  # a round of the loop, which hears it
        assert (
            attempts.pids() == [process.pid] and attempts.cpu_s() < 0.1
        )  # what it took before is not its own
        process.kill()
    known_s = attempts.cpu_s()
    assert known_s < 0.1
    ended = {"status": 9, "cpu_s": 5.0, "memory_peak_bytes": 77}
    zygote.say({"type": "reaped", "pid": process.pid, **ended})
    assert 4.0 < attempts.cpu_s() < 5.0  # 5 s in all, and more than 0.3 before it began
    (report,) = reports
    assert report["counters"]["cpu_s"] == attempts.cpu_s()  # what starting it took is not its own
    assert report["counters"]["memory_peak_bytes"] == 77
    assert report["reason"] == "killed by signal 9 (SIGKILL)"
    await attempts.close()


def test_what_attempts_say_out_of_turn_changes_nothing(tmp_path: Path) -> None:
    """Unexpected, unknown and repeated messages and an endless line from an attempt change nothing."""
    said: list[tuple[str, ...]] = []

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            over = asyncio.Event()
            line = JsonLine(ours, lambda message: said.append(tuple(sorted(message))), over.set, 100)
            theirs.send(b'{"a": 1}\n[3]\n"x"\n{"b": 2, "c": 3}\n')
            while len(said) < 2:
                await asyncio.sleep(0.01)
            theirs.send(b"x" * 200)
            await asyncio.wait_for(over.wait(), PATIENCE_S)
            line.send({"nobody": "hears"})

    asyncio.run(talk())
    assert said == [("a",), ("b", "c")]
