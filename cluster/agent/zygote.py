"""The warm process of a node: numpy and the applications imported once, every attempt a fork of it.

Single-threaded, driven by JSON lines on the socket to its agent. A fork takes 2-3 ms, and moving it into a control
group 5-10 ms in the kernel, so each slot gets a spare: a fork that has moved already and waits for its attempt.
When the agent goes, so do all attempts and the zygote.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from schedbed.cluster.agent.fork import (
    EXIT_SETUP,
    MET,
    ForkSetup,
    Message,
    Run,
    become_attempt,
    run,
    wait_and_run,
)
from schedbed.tasks.context import NodeContext

SPARE_AFTER_S = 0.1  # leave a fresh attempt the CPU before the next spare is forked


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an attempt runs: a number, and the `cgroup.procs` files to join (none in software)."""

    index: int
    procs: tuple[str, ...]


def _slot(message: Message) -> Slot:
    return Slot(message["slot"], tuple(message["procs"]))


def context_from_json(raw: Message) -> NodeContext:
    """A NodeContext from its JSON form."""
    paths = {"root": Path(raw["root"]), "budget": Path(raw["budget"]) if raw["budget"] else None}
    return NodeContext(**{**raw, **paths})


def load(runner: str) -> Run:
    """The function `module:name`, with numpy and all applications imported beside it.

    An application that cannot be imported is left cold: its attempts say why when they try.
    """
    module, _, name = runner.partition(":")
    run: Run = getattr(importlib.import_module(module), name)
    apps = importlib.import_module("schedbed.tasks.apps").__path__
    for warm in ("numpy", *(found.name for found in pkgutil.iter_modules(apps, "schedbed.tasks.apps."))):
        try:
            importlib.import_module(warm)
        except ImportError as error:
            print(f"not warmed up: {warm}: {error}", file=sys.stderr)
    return run


class Zygote:
    """Forks, kills and reaps attempts as told on `agent`."""

    def __init__(self, agent: socket.socket) -> None:
        self._agent = agent
        self._buffer = b""
        self._attempts: dict[int, str] = {}  # by pid
        self._spares: dict[Slot, tuple[int, socket.socket]] = {}
        self._wanted: list[tuple[float, Slot]] = []  # when to fork a spare for which slot
        self._setup: ForkSetup | None = None
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        signal.set_wakeup_fd(wake_end.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Works until the agent closes the socket, then kills what runs and returns."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._agent, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(self._patience_s())]
                if self._wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                    self._reap()
                if self._agent in ready and not self._read():
                    return self._end()
                while self._patience_s() == 0.0:
                    self._park(self._wanted.pop(0)[1])

    def _patience_s(self) -> float | None:
        """Until the next spare is due; None when none is."""
        return max(0.0, self._wanted[0][0] - time.monotonic()) if self._wanted else None

    # ------------------------------------------------------------ the agent

    def _read(self) -> bool:
        """Handles the lines that have come; False when the agent is gone."""
        try:
            data = self._agent.recv(1 << 20)
        except ConnectionError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(data)

    def _handle(self, message: Message) -> None:
        match message["type"]:
            case "setup":
                self._set_up(message)
            case "peers":
                self._meet(message)
            case "park":
                self._wanted.insert(0, (0.0, _slot(message)))
            case "launch":
                self._launch(message)
            case "kill":
                self._kill(message["attempt"])

    def _set_up(self, message: Message) -> None:
        self._setup = ForkSetup(
            load(message["runner"]), context_from_json(message["context"]), message["limit_memory"]
        )
        gc.collect()
        gc.freeze()
        self._tell({"type": "ready"})

    def _meet(self, message: Message) -> None:
        assert self._setup is not None
        self._setup.node = replace(self._setup.node, **{name: message[name] for name in MET})

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError):  # the next read sees that the agent is gone
            self._agent.sendall(json.dumps(message).encode() + b"\n")

    # ------------------------------------------------------------- attempts

    def _launch(self, message: Message) -> None:
        attempt, slot = message["spec"]["attempt"], _slot(message)
        try:
            pid = self._use_spare(slot, message) or self._fork(message, slot)
        except OSError as error:
            self._tell(_ended(attempt, None, error=f"cannot fork: {error.strerror}"))
            return
        self._attempts[pid] = attempt
        self._tell({"type": "started", "attempt": attempt, "pid": pid})
        self._wanted.append((time.monotonic() + SPARE_AFTER_S, slot))

    def _fork(self, order: Message, slot: Slot) -> int:
        assert self._setup is not None
        setup = self._setup
        return self._child(lambda: run(setup, order["spec"], slot.procs, order["gate"]))

    def _use_spare(self, slot: Slot, launch: Message) -> int | None:
        """Hands the attempt to the fork that waits in that slot; None when there is none."""
        assert self._setup is not None
        pid, line = self._spares.pop(slot, (0, None))
        if line is None:
            return None
        node = self._setup.node
        met = {"peers": dict(node.peers), "racks": dict(node.racks), "epoch_s": node.epoch_s}
        order = {"spec": launch["spec"], "gate": launch["gate"], **met}
        try:
            with line:
                line.sendall(json.dumps(order).encode())
        except OSError:
            return None  # it died while it waited
        return pid

    def _park(self, slot: Slot) -> None:
        """Forks a spare for a slot that has none."""
        if slot in self._spares or self._setup is None:
            return
        setup = self._setup
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                pid = self._child(lambda: wait_and_run(setup, slot.procs, theirs), keep=theirs.fileno())
            except OSError:
                ours.close()  # the attempt will fork for itself
                return
        self._spares[slot] = (pid, ours)

    def _child(self, work: Callable[[], int], keep: int = -1) -> int:
        """Forks; the child does `work` and exits with what it returns, or says why not on stderr."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = EXIT_SETUP
        try:
            become_attempt(parent, keep)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _kill(self, attempt: str) -> None:
        for pid, running in self._attempts.items():
            if running == attempt:
                _kill_session(pid)

    def _reap(self) -> None:
        """Takes leave of each child that has ended, and kills what it left in its session."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            _kill_session(ended.si_pid)  # still a zombie, so its id is nobody else's yet
            pid, status, usage = os.wait4(ended.si_pid, 0)
            self._forget_spare(pid)
            if attempt := self._attempts.pop(pid, None):
                self._tell(_ended(attempt, status, usage))

    def _forget_spare(self, pid: int) -> None:
        for slot, (spare, line) in list(self._spares.items()):
            if spare == pid:
                line.close()
                del self._spares[slot]

    def _end(self) -> None:
        """Kills all children and waits for them."""
        pids = [*self._attempts, *(pid for pid, _ in self._spares.values())]
        for pid in pids:
            _kill_session(pid)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _ended(
    attempt: str, status: int | None, usage: resource.struct_rusage | None = None, error: str = ""
) -> Message:
    cpu_s = usage.ru_utime + usage.ru_stime if usage else 0.0
    peak_bytes = usage.ru_maxrss * 1024 if usage else 0
    used = {"cpu_s": cpu_s, "memory_peak_bytes": peak_bytes}
    return {"type": "ended", "attempt": attempt, "status": status, "error": error, **used}


def _kill_session(pid: int) -> None:
    """SIGKILL to the process group of a child of ours, or to itself while it has none yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def main() -> None:
    """`python -m schedbed.cluster.agent.zygote FD`: serve the agent on that inherited socket."""
    gc.disable()
    with socket.socket(fileno=int(sys.argv[1])) as agent:
        Zygote(agent).serve()


if __name__ == "__main__":
    main()
