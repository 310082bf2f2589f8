"""Fast start of the agents on this host: all agents are forked from one template process.

The template process (`agent.warm.template`) has imported the agent's modules. It is started on first use.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

from schedbed.cluster.agent.warm import template
from schedbed.cluster.agent.warm.zygote_link import ONE_THREAD
from schedbed.cluster.own_python import module_command, module_environment

POLL_S = 0.005


class TemplateDied(OSError):
    """The template process could not be started, or has ended. The reason is in the log of the new agent."""


class AgentTemplate:
    """A client of the template process that forks agents. All threads of this process can use the client.

    If the template process has died, `fork` starts another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, log: Path) -> ForkedAgent:
        """Fork a new agent from the template process. Error messages of the agent go to the file `log`.

        Raises OSError if the agent cannot be forked.
        """
        with log.open("ab") as said, contextlib.ExitStack() as ends:
            stdin, theirs_in = _pipe()
            stdout, theirs_out = reversed(_pipe())
            for end in (theirs_in, theirs_out):
                ends.callback(os.close, end)
            try:
                answer = self._ask(template.FORK, [theirs_in, theirs_out, said.fileno()], said.fileno())
            except BaseException:
                os.close(stdin)
                os.close(stdout)
                raise
        return ForkedAgent(self, int(answer), os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))

    def status(self, kind: bytes, pid: int) -> int | None:
        """Return the exit code of the agent with the given pid, or None while the agent runs.

        If the template process has died, return `template.LOST`. `kind` is `template.POLL`, or
        `template.REAP` to free the pid of an agent that has ended.
        """
        try:
            answer = self._ask(kind + b" %d" % pid)
        except OSError:  # The host's init process reaps its agents.
            return template.LOST
        return None if answer == template.ALIVE else int(answer)

    def close(self) -> None:
        """End the template process. Agents that were forked from it continue to run."""
        with self._lock:
            line, process = self._line, self._process
            self._line = self._process = None
        if line is not None and process is not None:
            line.close()
            process.wait()

    def _ask(self, message: bytes, descriptors: list[int] | None = None, log: int | None = None) -> bytes:
        with self._lock:
            if log is not None and (self._process is None or self._process.poll() is not None):
                self._start(log)
            if self._line is None:
                raise TemplateDied("no template")
            try:
                socket.send_fds(self._line, [message], descriptors or [])
                answer = self._line.recv(template.MESSAGE_BYTES)
            except ConnectionError as error:
                raise TemplateDied("the template of agents has died") from error
            if not answer:
                raise TemplateDied("the template of agents has ended")
            return answer

    def _start(self, log: int) -> None:
        if self._line is not None:
            self._line.close()
        atexit.unregister(self.close)
        atexit.register(self.close)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*module_command(template.__name__), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=module_environment() | ONE_THREAD,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )


class ForkedAgent:
    """An agent process forked from a template, with its pid, standard streams and exit code."""

    def __init__(
        self, of: AgentTemplate, pid: int, stdin: io.BufferedWriter, stdout: io.BufferedReader
    ) -> None:
        self._template = of
        self._code: int | None = None
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout

    def poll(self) -> int | None:
        """Return the agent's exit code, or None while the agent runs. The pid stays reserved until `wait`."""
        if self._code is None:
            return self._template.status(template.POLL, self.pid)
        return self._code

    def has_ended_within(self, patience_s: float) -> bool:
        """Wait until the agent has ended, for at most `patience_s` seconds. Return whether it has ended."""
        give_up_s = time.monotonic() + patience_s
        while self.poll() is None and time.monotonic() < give_up_s:
            time.sleep(POLL_S)
        return self.poll() is not None

    def wait(self) -> int:
        """Wait until the agent has ended, and free the pid. Return the exit code (negative for a signal)."""
        while self.poll() is None:
            time.sleep(POLL_S)
        if self._code is None:
            self._code = self._template.status(template.REAP, self.pid)
        assert self._code is not None
        return self._code


def _pipe() -> tuple[int, int]:
    """Create a pipe that child processes do not inherit. Return its write end and its read end."""
    reads, writes = os.pipe2(os.O_CLOEXEC)
    return writes, reads


TEMPLATE = AgentTemplate()
"""The template of this process."""
