"""Policies that do what a policy must not do, each as the lines that differ from an ordinary policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FILE = """
import ctypes, gc, inspect, os, random, shutil, signal, subprocess, sys, threading, time
from schedbed.policy import Kill, Proposal, Quiet, TaskKind
{top}

def pick(view, kind):
    for job in view.jobs.values():
        task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
        if task is not None:
            return Proposal(task, "first")
    return None


class Mine:
    def decide(self, view, node, kind):
        {decide}
        return pick(view, kind)

    {more}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A hostile policy: the code that it has in `decide`, elsewhere in the class, and at the top of its file.

    With `check`, `schedbed policy check` must refuse the policy, although a run works as with other policies.
    With `in_run`, the policy is refused only after a run has begun, so that it can be tried live.
    """

    name: str
    decide: str = "pass"
    more: str = ""
    top: str = ""
    check: bool = False
    in_run: bool = True

    def text(self) -> str:
        """Return the source of the policy's file."""
        decide, more = self.decide.replace("\n", "\n        "), self.more.replace("\n", "\n    ")
        return FILE.format(decide=decide, more=more, top=self.top)


CHANGES = (
    "node.free_maps = 50",
    "node.spec.map_slots = 50",
    "object.__setattr__(node, 'free_maps', 50)",
    "del node.rack",
    "node.usage.cpu_util = 1.0",
    "node.attempts.clear()",
    "view.now_s = 0.0",
    "view.jobs.clear()",
    "del view.jobs['job_0001']",
    "view.nodes.update(n9=node)",
    "view.nodes['n1'].alive = False",
    "view.kill(None, '')",
    "view.jobs['job_0001'].priority = 0",
    "view.jobs['job_0001'].spec.params['x'] = 1",
    "view.jobs['job_0001'].spec.reduces = 0",
    "view.jobs['job_0001'].maps.tasks.sort(key=lambda task: -task.index)",
    "view.jobs['job_0001'].maps.tasks[0].state = 'done'",
    "view.jobs['job_0001'].maps.user.running = 0",
    "__import__('copy').deepcopy(view)",
)
RAISES = (
    "sys.exit(0)",
    "raise BaseException('no')",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "raise StopIteration",
    "raise MemoryError",
    "def f(): f()\nf()",
    "x = bytearray(1 << 60)",
    "assert False, 'x' * 1000000",
    "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "raise type('E', (Exception,), {'__str__': lambda self: 'two\\nlines'})()",
    "undefined",
)
ENDS = (
    "os._exit(0)",
    "os._exit(3)",
    "os.abort()",
    "os.kill(os.getpid(), signal.SIGKILL)",
    "os.kill(os.getpid(), signal.SIGTERM)",
    "ctypes.string_at(0)",
    "os.execv('/bin/true', ['true'])",
    "os.fork()\nos._exit(0)",
    "os.closerange(3, 200)",
    "os.close(1)\nos.close(2)\nos._exit(0)",
)
HANGS = (
    "while True: pass",
    "time.sleep(1000)",
    "threading.Event().wait()",
    "threading.Lock().acquire() and (lock := threading.Lock()).acquire() and lock.acquire()",
    "signal.pause()",
    "while True:\n    try: time.sleep(0.01)\n    except BaseException: pass",
    "signal.signal(signal.SIGURG, signal.SIG_IGN)\nwhile True:\n    try: pass\n    except BaseException: pass",
    "subprocess.run(['sleep', '1000'])",
    "3 ** 10 ** 9",
    "sum(range(10 ** 12))",
    "sys.stdin.read() or os.read(0, 1) or time.sleep(1000)",
    "while True: print('x' * 1000)",
    "for _ in range(1000): print('x' * 1000000)",
    "x = [0]\nfor each in x: x.append(each)",
)
ANSWERS = (
    "return 5",
    "return 'job_0001_m_000000'",
    "return True",
    "yield pick(view, kind)",
    "return [pick(view, kind)]",
    "return Proposal(None, 'x')",
    "return Proposal(view, 'x')",
    "return Proposal(pick(view, kind), 'x')",
    "return Proposal(list(view.jobs.values())[0].maps.tasks[0], 'again') if view.jobs else None",
    "return Proposal(pick(view, kind).task, 'x', split='half') if pick(view, kind) else None",
    "return Proposal(pick(view, kind).task, 'x', split=float('nan')) if pick(view, kind) else None",
    "return Proposal(pick(view, kind).task, 'x', speculative=True) if pick(view, kind) else None",
    "return type('P', (Proposal,), {'task': property(lambda self: 1 / 0)})(1, 'x')",
    "return None",
    "p = pick(view, kind)\nreturn p and Proposal(p.task, '\\ud800\\0')",
    "p = pick(view, kind)\nreturn p and Proposal(p.task, 'x' * 100_000_000)",
    "for job in view.jobs.values(): view.skip(node, job, kind, '\\ud800' * 100000)",
    "return pick(view, TaskKind.REDUCE)",
)
LIVE = "[a for n in view.nodes.values() for a in n.attempts.values() if a.state != 'killing']"
HOOKS: Mapping[str, str] = {
    "submitted raises": "def submitted(self, view, job):\n    raise ValueError(job)",
    "changed changes": "def changed(self, view, job, kind):\n    job.maps.tasks.clear()",
    "ended exits": "def ended(self, view, attempt):\n    sys.exit()",
    "beat hangs": "def beat(self, view, node):\n    while True: pass",
    "tick ends the process": "def tick(self, view):\n    os._exit(0)",
    "too few arguments": "def tick(self):\n    pass",
    "a hook is a number": "finished = 5",
    "preempt kills all": f"def preempt(self, view):\n    return [Kill(a, 'no') for a in {LIVE}]",
    "preempt is endless": "def preempt(self, view):\n    while True: yield Kill(None, 'x')",
    "preempt gives a number": "def preempt(self, view):\n    return 7",
    "preempt gives texts": "def preempt(self, view):\n    return ['a'] * 1000",
    "limits are texts": "limits = 'abc'",
    "patience is a text": "patience_s = 'long'",
    "speculation is a number": "speculation = 5",
    "speculation raises": "class speculation:\n    def copy(view, node, kind):\n        raise ValueError('no')",
    "speculation hangs": "class speculation:\n    def copy(view, node, kind):\n        while True: pass",
    "admission without room": "admission = object()",
    "a property raises": "@property\ndef limits(self):\n    raise ValueError('no')",
    "__getattr__ raises": "def __getattr__(self, name):\n    raise ValueError(name)",
    "report gives a set": "def report(self):\n    return {'x': {1, 2}}",
    "report gives a number": "def report(self):\n    return 5",
    "report gives the view": "def report(self):\n    return {'x': self}",
    "report ends the process": "def report(self):\n    os._exit(0)",
    "__init__ hangs": "def __init__(self):\n    while True: pass",
    "__init__ exits": "def __init__(self):\n    sys.exit(0)",
    "__init__ ends the process": "def __init__(self):\n    os._exit(0)",
    "__init__ wants more": "def __init__(self, needed):\n    pass",
    "__new__ gives another": "def __new__(cls):\n    return 5",
    "quiet raises": "quiet = Quiet(awaits_beat=lambda: 1 / 0)",
    "quiet is a number": "quiet = 5",
}
BEFORE_RUN = (
    "a hook is a number",
    "quiet is a number", "limits are texts", "patience is a text", "admission without room", "a property raises",
    "__getattr__ raises", "speculation is a number",
)  # fmt: skip
TOPS: Mapping[str, str] = {
    "import fails": "import no_such_module",
    "import divides by zero": "1 / 0",
    "import exits": "sys.exit(0)",
    "import ends the process": "os._exit(0)",
    "import hangs": "while True: pass",
    "import sleeps": "time.sleep(1000)",
    "import does not parse": "def",
    "import crashes": "ctypes.string_at(0)",
}
LEDGER = "import schedbed.scheduler.core.ledger as ledger"
REACHES = (
    "node._Proxy__raw.free_maps = 50",
    "[n for n in gc.get_objects() if type(n).__name__ == 'Node'][0].free_maps = 50",
    "inspect.stack()[5].frame.f_locals['node'].free_maps = 50",
    "view._Proxy__raw.jobs.clear()",
    "f = sys._getframe()\nwhile f:\n    for x in list(f.f_locals.values()):\n"
    "        if type(x).__name__ == 'Ledger': x.jobs.clear()\n    f = f.f_back",
)
PATCHES: Mapping[str, str] = {
    "Ledger.why_not": f"{LEDGER}\nledger.Ledger.why_not = lambda *a: None",
    "Ledger.launch": f"{LEDGER}\nledger.Ledger.launch = None",
    "GuardedPolicy.decide": (
        "from schedbed.scheduler.guard import guarded_policy as g\ng.GuardedPolicy.decide = lambda *a: 5"
    ),
    "Simulation.run": (
        "from schedbed.scheduler.simulate import simulation as s\ns.Simulation.run = lambda *a, **k: None"
    ),
    "time.sleep": "time.sleep = lambda s: None\ntime.monotonic = lambda: 0.0",
    "builtins": "__import__('builtins').len = lambda x: 1 / 0",
}
HARMLESS = (
    "os.chdir('/')",
    "os.environ.clear()",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "threading.Thread(target=time.sleep, args=(1000,)).start() if not threading.enumerate()[3:] else None",
    "shutil.rmtree(os.environ['HOSTILE_OUT'], ignore_errors=True)",
    "sys.stdout.close()",
    "sys.stdout = sys.stderr = None",
    "sys.setrecursionlimit(50000)",
    "gc.disable()",
    "view.random.seed(1)",
    "os.umask(0o777)",
    "sys.modules.clear()",
)
CHANCE = (
    "if time.time_ns() % 3 == 0: return None",
    "if os.urandom(1)[0] < 99: return None",
    "if random.random() < 0.5: return None",
    "if hash(f'{node.node} {view.now_s:.0f}') % 2: return None",
    "if id(view) // 16 % 3 == 0: return None",
)


def attacks() -> Iterator[Attack]:
    """Yield all hostile policies, with unique names."""
    for line in (*CHANGES, *RAISES, *ENDS, *HANGS, *ANSWERS, *REACHES, *HARMLESS):
        yield Attack(name=line.replace("\n", "; ")[:60], decide=line)
    for name, more in HOOKS.items():
        yield Attack(name=name, more=more, in_run=not name.startswith("__") and name not in BEFORE_RUN)
    for name, top in TOPS.items():
        yield Attack(name=name, top=top, in_run=False)
    for name, top in PATCHES.items():
        yield Attack(name=f"patches {name}", top=top)
    for line in CHANCE:
        yield Attack(name=line[:60], decide=line, check=True, in_run=False)
