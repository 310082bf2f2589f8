"""The CPU time of a node's attempts, which only grows."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from schedbed.cluster.agent.attempts import Attempts
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.clock import RunClock
from tests.harness.agents import attempt_spec, node_spec

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"


class Zygote:
    """Says what the test says."""

    say: Callable[[dict[str, Any]], None]

    async def connect(self, setup: Any, on_message: Callable[[dict[str, Any]], None], on_end: Any) -> None:
        self.say = on_message

    def send(self, message: Any) -> None:
        """Nothing is launched."""


def test_a_process_that_has_ended_keeps_its_time_until_its_report_comes(tmp_path: Path) -> None:
    where = AgentDir(tmp_path)
    for folder in (where.attempts, where.mapout):
        folder.mkdir()
    config = AgentConfig(
        node=node_spec(), root=tmp_path, token="t", epoch_s=0.0, heartbeat_s=0.2, limits="off", run_id="r"
    )
    zygote: Any = Zygote()
    attempts = Attempts(
        where,
        NodeLimits(config, where),
        RunClock(0.0),
        start_zygote=lambda: zygote,
        setup=dict,
        publish=lambda report: None,
        on_fatal=lambda why: None,
    )
    asyncio.run(attempts.open(zygote))
    spec = attempt_spec()
    attempts.launch(spec.to_json())
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        zygote.say({"type": "started", "attempt": spec.attempt, "pid": process.pid})
        assert attempts.cpu_s() == 0  # its own code has not begun, as far as anybody knows
        (where.attempt(spec.attempt) / "status").write_text(json.dumps({"setup_cpu_s": 0.1}))
        known_s = attempts.cpu_s()
        used = psutil.Process(process.pid).cpu_times()
        ticks_s = 2 / os.sysconf("SC_CLK_TCK")  # by which psutil may be behind
        assert 0.2 <= known_s <= used.user + used.system - 0.1 + ticks_s
        process.kill()
    assert attempts.cpu_s() == known_s
    ended = {"status": 9, "cpu_s": known_s + 0.1, "memory_peak_bytes": 0, "error": ""}
    zygote.say({"type": "ended", "attempt": spec.attempt, **ended})
    assert abs(attempts.cpu_s() - known_s) < 1e-9
