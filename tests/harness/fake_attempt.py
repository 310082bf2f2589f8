"""A fake attempt runtime: the actions that tests of the agent give to an attempt."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from schedbed.tasks.context import NodeContext
from schedbed.tasks.specs import AttemptSpec


def run_attempt(spec: AttemptSpec, node: NodeContext, limited: AbstractContextManager[None]) -> int:
    """Carry out the action `params["do"]` within the context `limited`; return the exit code.

    Writes a report like the real runtime.
    """
    with limited:
        return _run(spec, node)


def _run(spec: AttemptSpec, node: NodeContext) -> int:
    start_s = time.time() - node.epoch_s
    folder = node.root / "attempts" / spec.attempt
    started = {"progress": 0.25, "phase": "map", "started_s": start_s}
    (folder / "status").write_text(json.dumps(started))
    outcome = _DO[spec.params["do"]](spec, node)
    report = {"state": "succeeded", "reason": "", "partitions": [], "counters": {"records_in": 7}}
    report |= {"start_s": start_s, "end_s": time.time() - node.epoch_s} | outcome
    (folder / "report.json").write_text(json.dumps(report))
    return 0 if report["state"] == "succeeded" else 1


def _nothing(_spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    return {}


def _burn(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    until = time.process_time() + spec.params["cpu_s"]
    while time.process_time() < until:
        pass
    return {}


def _spin(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    """Burn CPU for a period of wall time."""
    until = time.monotonic() + spec.params["wall_s"]
    while time.monotonic() < until:
        pass
    return {}


def _sleep(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    time.sleep(spec.params.get("wall_s", 60))
    return {}


def _with_child(spec: AttemptSpec, node: NodeContext) -> dict[str, Any]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (node.root / "mapout" / "child").write_text(str(child.pid))
    return _sleep(spec, node) if spec.params.get("wait", True) else {}


def _children(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    """Start two children that burn CPU, one of which holds shared memory; never wait for them."""
    held = mmap.mmap(-1, spec.params["bytes"])
    for child in range(2):
        if os.fork() == 0:
            if child:
                for page in range(0, len(held), 4096):
                    held[page] = 1
            until = time.monotonic() + spec.params["wall_s"]
            while time.monotonic() < until:
                pass
            os._exit(0)
    time.sleep(spec.params["wall_s"])
    return {}


def _memory(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    try:
        held = b"x" * spec.params["bytes"]
    except MemoryError:
        return {"state": "failed", "reason": f"over its memory limit of {spec.memory_bytes >> 20} MiB"}
    return {"counters": {"records_in": len(held)}}


def _shared_memory(spec: AttemptSpec, node: NodeContext) -> dict[str, Any]:
    """Hold memory that RLIMIT_DATA does not count, but a control group does."""
    with mmap.mmap(-1, spec.params["bytes"]) as held:
        for page in range(0, len(held), 4096):
            held[page] = 1
    return {}


def _children_spin(_spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    """Start three CPU-bound processes that ignore the attempt's limits.

    Two are in sessions of their own, and one is a child of a shell.
    """
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    subprocess.run(["sh", "-c", "(while :; do :; done) & wait"], check=False)
    return {}


def _children_share(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    """Hold shared memory in two processes, half in each."""
    import mmap

    for _ in range(2):
        if os.fork() == 0:
            with mmap.mmap(-1, spec.params["bytes"] // 2) as held:
                for page in range(0, len(held), 4096):
                    held[page] = 1
                time.sleep(60)
            os._exit(0)
    time.sleep(60)
    return {}


def _die(spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    os.kill(os.getpid(), spec.params.get("signal", signal.SIGSEGV))
    time.sleep(60)
    return {}


def _exit(_spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    print("the last words", file=sys.stderr, flush=True)
    os._exit(3)


def _show_environment(_spec: AttemptSpec, node: NodeContext) -> dict[str, Any]:
    """Write the node and the environment to a map output, and wait so that the test can inspect them."""
    told = json.dumps({"context": repr(node), "environment": dict(os.environ)})
    (node.root / "mapout" / "told").write_text(told)
    time.sleep(60)
    return {}


def _raise(_spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    raise RuntimeError("thrown past the runtime")


def _raise_unheard(_spec: AttemptSpec, _node: NodeContext) -> dict[str, Any]:
    """Raise an exception whose text does not reach the attempt's log."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise RuntimeError("thrown without a log")


def _map_output(spec: AttemptSpec, node: NodeContext) -> dict[str, Any]:
    folder = node.root / "mapout" / spec.attempt
    folder.mkdir(parents=True)
    partitions = [part.encode() for part in spec.params["partitions"]]
    (folder / "data").write_bytes(b"".join(partitions))
    ends = [sum(map(len, partitions[: index + 1])) for index in range(len(partitions))]
    index = [[end - len(part), len(part)] for end, part in zip(ends, partitions, strict=True)]
    (folder / "index.json").write_text(json.dumps(index))
    return {"partitions": [len(part) for part in partitions]}


def _look(spec: AttemptSpec, node: NodeContext) -> dict[str, Any]:
    """Return facts about the attempt's surroundings in the reason of its report."""
    seen = {
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()),
        "session": os.getsid(0) == os.getpid(),
        "peers": dict(node.peers),
        "budget": node.budget is not None,
        "pace_cpu": node.pace_cpu,
        "numpy": "numpy" in sys.modules,
    }
    return {"reason": json.dumps(seen)}


_DO = {
    "nothing": _nothing,
    "burn": _burn,
    "spin": _spin,
    "sleep": _sleep,
    "with_child": _with_child,
    "children": _children,
    "children_spin": _children_spin,
    "children_share": _children_share,
    "memory": _memory,
    "shared_memory": _shared_memory,
    "die": _die,
    "exit": _exit,
    "raise": _raise,
    "raise_unheard": _raise_unheard,
    "show_environment": _show_environment,
    "map_output": _map_output,
    "look": _look,
}
