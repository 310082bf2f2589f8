"""Policies that want a better score than their decisions earn, each as the code by which it cheats.

Each acts as an ordinary policy besides. A cheat that learned what it must not know, or reached what it must
not reach, says GAIN in its next reason.
"""

from __future__ import annotations

FILE = """
import ctypes, gc, os, signal, socket, subprocess, sys, threading
from pathlib import Path
from schedbed.policy import Proposal, TaskKind

get = object.__getattribute__
RAW = "_Proxy__raw"
{top}

def raw(proxy):
    return get(proxy, RAW)

class Mine:
    calls, said = 0, "first come"

    def decide(self, view, node, kind):
        self.calls += 1
        try:
            self.cheat(view, node, kind)
        except (OSError, PermissionError, TypeError, AttributeError, ValueError, RuntimeError, StopIteration):
            pass
        for job in view.jobs.values():
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.any_map()
            if task is not None:
                return Proposal(task, self.said)
        return None

    def cheat(self, view, node, kind):
        {cheat}
"""

SECRET = "7.125"
"""The true CPU seconds of some tasks, which `sizes: hidden` hides."""
ROWS = "sink = raw(view)._sink\nwhile hasattr(sink, 'target'): sink = sink.target\n"
COSTS = "[c for c in {where} if 'cost' in type(c).__name__.lower() and getattr(c, 'cpu_s', 0) == 7.125]"

SIMULATED: dict[str, str] = {
    "the clock at half its speed": "raw(view).now_s *= 0.5",
    "a job ended without a task": (
        "from schedbed.scheduler.core.states import JobState\n"
        "for job in list(raw(view).jobs.values()): raw(view).end_job(job, JobState.SUCCEEDED, '')"
    ),
    "tasks that are done at once": (
        "job = next(iter(raw(view).jobs.values()))\n"
        "for task in job.maps.tasks: task.state = 'done'\n"
        "job.maps.done = job.maps.total"
    ),
    "slots overbooked": "raw(node).free_maps = 50",
    "a larger node": "object.__setattr__(raw(node).spec, 'map_slots', 50); raw(node).free_maps += 48",
    "memory from nowhere": "raw(node).free_memory_bytes = 1 << 50",
    "an attempt's row forged": (
        ROWS + "from schedbed.scheduler.core.rows import AttemptRow\n"
        "sink.attempt(AttemptRow('job_0001', 'job_0001_m_000000', 'job_0001_m_000000_9', 'map', '', node.node,"
        " node.rack, 'off', False, 0.0, 0.0, 0.1, 'succeeded', '', 0, 0, 0.0, 0, 0, 0, 0, 0, None, None))"
    ),
    "a job's row forged": (
        ROWS + "from schedbed.scheduler.core.rows import JobRow\n"
        "sink.job(JobRow('job_0002', 'b', 'user', 'default', 'synthetic', 0.0, 0.0, 0.1, None, 4, 0, 0,"
        " 0, 'succeeded'))"
    ),
    "rows left out": ROWS + "type(sink).attempt = lambda self, row: None",
    "rows replaced": (
        ROWS + "take = type(sink).job\n"
        "if self.calls == 1: type(sink).job = lambda self, row: take(self, row._replace(finish=row.submit + 0.1))"
    ),
    "submitted later": "for job in raw(view).jobs.values(): job.submit_s = view.now_s",
    "deadlines moved": "for job in raw(view).jobs.values(): job.deadline_s = 1e9",
    "a thread that turns the clock back": (
        "ledger = raw(view)\n"
        "def turn():\n"
        "    for _ in range(1000): ledger.now_s *= 0.5\n"
        "thread = threading.Thread(target=turn); thread.start(); thread.join()"
    ),
    "costs from frames": (
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    for each in list(frame.f_locals.values()):\n"
        "        for held in (each, *(gc.get_referents(each) if self.calls < 3 else ())):\n"
        "            if SECRET in repr(held)[:100000]: self.said = 'GAIN'\n"
        "    frame = frame.f_back"
    ),
    "costs from the collector": (
        f"if self.calls < 3 and {COSTS.format(where='gc.get_objects()')}: self.said = 'GAIN'"
    ),
    "costs from a job's plan": (
        "for job in raw(view).jobs.values():\n"
        "    if SECRET in repr(get(job.spec, 'map_costs')): self.said = 'GAIN'"
    ),
    "costs from the command line": (
        "for process in ('self', str(os.getppid()), '1'):\n"
        "    if len(Path(f'/proc/{process}/cmdline').read_bytes()) > 0: self.said = 'GAIN'"
    ),
    "costs from a scenario's file": "if Path(FOLDER, 'scenario.yaml').read_text(): self.said = 'GAIN'",
    "results read": "if list(Path(FOLDER).iterdir()): self.said = 'GAIN'",
    "another policy's rows multiplied": (
        "import shutil\n"
        "for part in Path(FOLDER).glob('out/parts/*/fifo*'):\n"
        "    shutil.copy(part, part.with_name(part.name.replace('.parquet', '9.parquet'))); self.said = 'GAIN'"
    ),
    "a note for later": "Path(FOLDER, 'note').write_text('x'); self.said = 'GAIN'",
    "the memory of the parent": (
        "libc = ctypes.CDLL(None)\nif libc.ptrace(16, os.getppid(), 0, 0) == 0: self.said = 'GAIN'"
    ),
    "the parent ended": "os.kill(os.getppid(), 0); self.said = 'GAIN'",
    "another process": "if os.fork() == 0: os._exit(0)\nself.said = 'GAIN'",
    "a program": "subprocess.run(['true']); self.said = 'GAIN'",
    "the network": "socket.socket(); self.said = 'GAIN'",
    "answers forged on the pipe": (
        "for fd in range(3, 12):\n    os.write(fd, b'\\0\\0\\0\\x0f[1,[[\"done\",1]]]')"
    ),
    "checks switched off": (
        "from schedbed.scheduler.guard import guarded_policy\n"
        "from schedbed.scheduler.core.ledger import Ledger\n"
        "Ledger.why_not = lambda *_: None\n"
        "job = next(iter(raw(view).jobs.values()))\n"
        "guarded_policy.GuardedPolicy._checked = lambda self, view, node, kind, answer: (\n"
        "    None, '', Proposal(job.maps.tasks[0], 'again'))"
    ),
    "an early end": "if self.calls > 3: os._exit(0)",
}
"""The cheats by name. Each is the body of a method that is called before each answer."""

PAYING = (
    "the clock at half its speed",
    "a job ended without a task",
    "an attempt's row forged",
    "rows left out",
    "rows replaced",
    "slots overbooked",
    "submitted later",
    "deadlines moved",
    "a thread that turns the clock back",
    "a job's row forged",
    "another policy's rows multiplied",
)
"""The cheats that change rows, if the policy runs in the process that makes the rows."""


def text_of(name: str, folder: str) -> str:
    """Return the source of the policy's file. `folder` holds the scenario and its results."""
    return FILE.format(
        top=f"FOLDER, SECRET = {folder!r}, {SECRET!r}", cheat=SIMULATED[name].replace("\n", "\n        ")
    )
