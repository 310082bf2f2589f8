"""The zygote of a node: a process that has imported numpy and the applications, and forks all attempts.

It has a single thread and takes JSON lines from its agent. Since a fork takes 2-3 ms, and a move into a
control group up to 10 ms, the agent orders forks in advance ("spares"), each with its own socket to the
agent. When the agent ends, so do the zygote and all attempts.
"""

from __future__ import annotations

import array
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
import traceback
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from schedbed.cluster.agent.warm import fork
from schedbed.cluster.agent.warm.fork import (
    EXIT_SETUP,
    OPEN_MAX,
    ForkSetup,
    Message,
    Run,
    become_attempt,
    wait_and_run,
)
from schedbed.tasks.context import NodeContext

# Modules that attempts would import at first use: 20 ms of CPU time, or 0.4 s at a twentieth of a core.
WARM = ("numpy", "numpy.random", "encodings.idna")
FDS_MAX = 64  # maximum number of descriptors per read


def context_from_json(raw: Message) -> NodeContext:
    paths = {name: Path(raw[name]) if raw[name] else None for name in ("budget", "shared_disk")}
    return NodeContext(**{**raw, **paths, "root": Path(raw["root"])})


def load(runner: str) -> Run:
    """Return the function "module:name", with all applications imported. Attempts report failed imports."""
    module, _, name = runner.partition(":")
    run: Run = getattr(importlib.import_module(module), name)
    apps = importlib.import_module("schedbed.tasks.apps").__path__
    for warm in (*WARM, *(found.name for found in pkgutil.iter_modules(apps, "schedbed.tasks.apps."))):
        try:
            importlib.import_module(warm)
        except ImportError as error:
            print(f"not warmed up: {warm}: {error}", file=sys.stderr)
    return run


class Zygote:
    """Forks processes for attempts on orders from the socket `agent`, kills them, and reports their ends."""

    def __init__(self, agent: socket.socket) -> None:
        self._agent = agent
        self._buffer = b""
        self._lines: list[int] = []  # received sockets of spares whose orders to fork are not processed yet
        self._children: set[int] = set()  # not reaped yet, so that no other process can have their pids
        self._setup: ForkSetup | None = None
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        signal.set_wakeup_fd(wake_end.fileno(), warn_on_full_buffer=False)
        fork.prctl(fork.PR_SET_CHILD_SUBREAPER, 1)
        fork.prctl(fork.PR_SET_DUMPABLE, 0)  # Attempts of the same user must not trace it.

    def serve(self) -> None:
        """Process orders until the agent closes the socket, then kill all forked processes and return."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._agent, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                    self._reap()
                if self._agent in ready and not self._read():
                    return self._end()

    # ------------------------------------------------------------ the agent

    def _read(self) -> bool:
        """Process the lines received from the agent. Return False if the agent has closed the socket."""
        size = array.array("i").itemsize
        try:
            data, brought, _, _ = self._agent.recvmsg(1 << 20, socket.CMSG_SPACE(FDS_MAX * size))
        except ConnectionError:
            return False
        for _level, _kind, raw in brought:
            self._lines.extend(array.array("i", raw[: len(raw) // size * size]))
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(data)

    def _handle(self, message: Message) -> None:
        match message["type"]:
            case "setup":
                self._set_up(message)
            case "park":
                self._park(self._lines.pop(0), message["uid"])
            case "kill":
                if message["pid"] in self._children:
                    _kill_session(message["pid"])
            case "strays":
                self._kill_strays()

    def _set_up(self, message: Message) -> None:
        node = context_from_json(message["context"])
        fork.name_process(f"zygote {node.node}")
        self._setup = ForkSetup(load(message["runner"]), node, message["limit_memory"], message["processes"])
        gc.collect()
        gc.freeze()
        self._tell({"type": "ready"})

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError):  # The next read notices that the agent has ended.
            self._agent.sendall(json.dumps(message).encode() + b"\n")

    # ---------------------------------------------------------------- forks

    def _park(self, line: int, uid: int | None) -> None:
        """Fork a process that waits for an attempt on the socket `line`, and report its pid to the agent."""
        assert self._setup is not None
        with socket.socket(fileno=line) as theirs:
            try:
                pid = self._fork(self._setup, theirs, uid)
            except OSError as error:
                self._tell({"type": "parked", "pid": None, "error": f"cannot fork: {error.strerror}"})
                return
        self._children.add(pid)
        self._tell({"type": "parked", "pid": pid})

    def _fork(self, setup: ForkSetup, line: socket.socket, uid: int | None) -> int:
        """Fork a process, which never returns: it runs an attempt from `line` and exits with its code."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = EXIT_SETUP
        try:
            become_attempt(parent, line.fileno(), uid, setup.processes)
            code = wait_and_run(setup, line)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        """Report each process that has ended, after killing the rest of its session, then kill orphans."""
        some = False
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            known = ended.si_pid in self._children
            if known:
                _kill_session(ended.si_pid)  # It is still a zombie, so no other process has its pid.
            pid, status, usage = os.wait4(ended.si_pid, 0)
            some = True
            if known:
                self._children.discard(pid)
                self._tell(_reaped(pid, status, usage))
        if some:
            self._kill_strays()

    def _kill_strays(self) -> None:
        """Kill what ended attempts left behind: their orphans are then children of the zygote."""
        with contextlib.suppress(OSError, ValueError):
            own = os.getpid()
            for pid in map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split()):
                if pid not in self._children:
                    _kill_session(pid)

    def _end(self) -> None:
        """Kill all child processes and wait until they have ended."""
        for pid in self._children:
            _kill_session(pid)
        for pid in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._kill_strays()


def _reaped(pid: int, status: int, usage: resource.struct_rusage) -> Message:
    used = {"cpu_s": usage.ru_utime + usage.ru_stime, "memory_peak_bytes": usage.ru_maxrss * 1024}
    return {"type": "reaped", "pid": pid, "status": status, **used}


def _kill_session(pid: int) -> None:
    """Kill a process, and its process group if it leads one."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def live_in_fork(agent: socket.socket, lock: int) -> NoReturn:
    """Run a zygote in this process just forked from the agent, and exit. `lock` and `agent` stay open."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        kept = sorted({2, agent.fileno(), lock, OPEN_MAX})
        for below, above in pairwise(kept):
            os.closerange(below + 1, above)
        gc.disable()
        Zygote(agent).serve()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run a zygote with an inherited socket: `python -m schedbed.cluster.agent.warm.zygote FD`."""
    gc.disable()
    with socket.socket(fileno=int(sys.argv[1])) as agent:
        Zygote(agent).serve()


if __name__ == "__main__":
    main()
