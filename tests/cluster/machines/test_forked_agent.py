"""Agents forked from a template process: their process ids, their ends, and the death of the template."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from schedbed.cluster.machines import process
from schedbed.cluster.machines.process import AgentTemplate, ForkedAgent, TemplateDied


@pytest.fixture
def template() -> Iterator[AgentTemplate]:
    made = AgentTemplate()
    yield made
    made.close()


def bury(agent: ForkedAgent) -> int:
    agent.stdin.close()
    agent.stdout.close()
    return agent.wait()


def nonsense(agent: ForkedAgent) -> bytes:
    """Return the agent's answer to an invalid configuration."""
    agent.stdin.write(b"{}\n")
    agent.stdin.flush()
    return agent.stdout.readline()


def test_a_fork_is_an_agent_with_streams_and_a_session_of_its_own(
    template: AgentTemplate, tmp_path: Path
) -> None:
    agents = [template.fork(tmp_path / f"{number}.log") for number in range(2)]
    assert all(os.getsid(agent.pid) == agent.pid and agent.poll() is None for agent in agents)
    parents = {psutil.Process(agent.pid).ppid() for agent in agents}
    assert len(parents) == 1 and psutil.Process(parents.pop()).ppid() == os.getpid()
    for number, agent in enumerate(agents):
        assert b"error" in nonsense(agent)
        assert agent.has_ended_within(30)
        assert psutil.Process(agent.pid).status() == psutil.STATUS_ZOMBIE  # its id is nobody else's yet
        assert bury(agent) == 1
        assert not psutil.pid_exists(agent.pid)
        assert "cannot start" in (tmp_path / f"{number}.log").read_text()


def test_a_signal_is_told_and_an_end_of_input_ends_it(template: AgentTemplate, tmp_path: Path) -> None:
    killed, closed = (template.fork(tmp_path / "log") for _ in range(2))
    os.kill(killed.pid, signal.SIGKILL)
    assert bury(killed) == -signal.SIGKILL
    assert closed.poll() is None
    assert bury(closed) == 1  # no configuration came


def test_another_template_is_started_when_it_has_died(template: AgentTemplate, tmp_path: Path) -> None:
    first = template.fork(tmp_path / "log")
    parent = psutil.Process(psutil.Process(first.pid).ppid())
    parent.kill()
    while parent.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert first.poll() is not None  # nobody knows how it is
    second = template.fork(tmp_path / "log")
    assert b"error" in nonsense(second)
    assert bury(second) == 1
    assert bury(first) < 0


def test_a_template_that_cannot_be_imported_says_why(
    template: AgentTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(module: str) -> list[str]:
        return [*command(module)[:1], "-c", "import nothing_of_the_kind"]

    command: Callable[[str], list[str]] = process.module_command
    monkeypatch.setattr(process, "module_command", broken)
    with pytest.raises(TemplateDied):
        template.fork(tmp_path / "log")
    assert "nothing_of_the_kind" in (tmp_path / "log").read_text()
