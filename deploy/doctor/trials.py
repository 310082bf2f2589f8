"""Attacks by uncooperative attempts on each limit of a node, and the verdicts about their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.doctor.verdicts import attempt_memory, declared

HOLDS, BREAKS, TRUSTING, UNTRIED, UNLIMITED = (
    "holds",
    "does not hold",
    "holds for cooperating code only",
    "not shown",
    "no limit",
)
TOO_MUCH = {"cpu": 0.03, "disk": 0.05, "network": 0.05}
"""Tolerated excess over the declared amount, as a share, if a limit claims to hold for any code."""
LEAST = 0.5  # An attempt that got less than this share did not test the limit.
WANTED_BYTES = 400 * 2**20
HELD_ROOM_BYTES = (
    64 * 2**20
)  # Memory for the interpreter and the control group's other uses, in addition to the limit.
TOO_CLOSE = "it got too much, but"
OVER_MEMORY = "over its memory limit"
UNITS = {"cpu": "cores", "memory": "bytes", "disk": "bytes/s", "network": "bytes/s", "processes": "processes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileTrial:
    """An attack by `count` attempts (0: one per slot) that run `program` on a node.

    Each of `helpers` other nodes runs `helper`. `counter` measures the use of `resource`.
    """

    program: str
    about: str
    resource: str
    counter: str
    count: int = 1
    helper: str = ""
    helpers: int = 0


def _cpu(program: str, about: str, count: int = 1) -> HostileTrial:
    return HostileTrial(program=program, about=about, resource="cpu", counter="cpu_s", count=count)


TRIALS: Sequence[HostileTrial] = (
    _cpu("timer_off", "timer switched off"),
    _cpu("waited_children", "4 children, waited for"),
    _cpu("unwaited_children", "4 orphans, own sessions"),
    _cpu("shells", "two shells"),
    _cpu("native_threads", "4 native threads"),
    _cpu("other_group", "quota lifted, group left"),
    _cpu("stolen_descriptors", "agent's own files taken"),
    _cpu("waited_children", "4 children in each slot", count=0),
    HostileTrial(program="fork_bomb", about="fork bomb", resource="processes", counter="processes"),
    *(
        HostileTrial(program=program, about=about, resource="memory", counter="memory_bytes")
        for program, about in (
            ("private", "memory of its own"),
            ("shared", "shared memory"),
            ("shared_files", "/dev/shm, then shared"),
            ("children", "memory of 4 children"),
        )
    ),
    *(
        HostileTrial(program=program, about=about, resource="disk", counter=counter)
        for program, about, counter in (
            ("buffered", "buffered writes", "write_bytes"),
            ("direct", "O_DIRECT writes", "write_bytes"),
            ("synced", "writes with fsync", "write_bytes"),
            ("cold_reads", "cold reads", "read_bytes"),
        )
    ),
    HostileTrial(
        program="send",
        about="raw socket, sending",
        resource="network",
        counter="sent_bytes",
        helper="receive",
        helpers=1,
    ),
    HostileTrial(
        program="receive",
        about="raw sockets, receiving",
        resource="network",
        counter="received_bytes",
        helper="send",
        helpers=2,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeen:
    """A trial's observations. `achieved` by the counter `witness` is None if there was none.

    `state` and `reason` are the end of the first attempt. `pids_limit` is the host's own, and `left_behind`
    the processes that outlived the attempts.
    """

    achieved: float | None
    witness: str
    state: str
    reason: str
    node_lives: bool
    resolution: float = 0.0
    pids_limit: int | None = None
    left_behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit of a node, and what one kind of code achieved under it, in the unit of `UNITS`.

    `hostile` code tried to exceed it. `resolution`, the possible error, is larger for short measurements.
    """

    node: str
    resource: str
    code: str
    hostile: bool
    declared: float | None
    achieved: float | None
    by: str
    witness: str
    verdict: str
    resolution: float = 0.0
    note: str = ""

    @property
    def fails(self) -> bool:
        """Return whether the limit does not hold, or could not be tested."""
        return self.verdict in (BREAKS, UNTRIED)


def claims_any_code(by: str) -> bool:
    """Return whether a mechanism is meant to limit any code."""
    return bool(by) and not by.startswith(("software", "off")) and "cooperating" not in by


def declared_of(trial: HostileTrial, node: NodeSpec) -> float:
    """Return what all attempts of the trial may use together, 0 for processes, which have no declared limit."""
    if trial.resource == "processes":
        return 0.0
    if trial.resource == "cpu" and trial.count == 1:
        return node.core_speed
    return declared(node, trial.resource)


def judge(trial: HostileTrial, node: NodeSpec, by: str, seen: TrialSeen, most_processes: int) -> LimitRow:
    """Judge the observations against the limit enforced by `by`. A fork bomb makes `most_processes`."""
    allowed: float | None = declared_of(trial, node)
    if trial.resource == "processes":
        allowed = None if seen.pids_limit is None else float(seen.pids_limit)
        by = (
            ""
            if seen.pids_limit is None or seen.pids_limit >= most_processes
            else "pids of its control group"
        )
        problem = _too_many(seen, most_processes)
    elif trial.resource == "memory":
        problem = _too_much_memory(node, seen)
    else:
        problem = _too_fast(trial, node, seen)
    verdict, note = problem or (HOLDS, "")
    if not seen.node_lives:
        verdict, note = BREAKS, "the node died"
    if not claims_any_code(by):
        verdict = TRUSTING if by and by != "off" else UNLIMITED
        note = "" if note.startswith(TOO_CLOSE) else note
    if seen.left_behind:
        note = "; ".join(filter(None, (note, f"{seen.left_behind} of its processes outlived it")))
    return LimitRow(
        node=node.node,
        resource=trial.resource,
        code=trial.about,
        hostile=True,
        declared=allowed,
        achieved=seen.achieved,
        by=by or "nothing",
        witness=seen.witness,
        verdict=verdict,
        resolution=seen.resolution,
        note=note,
    )


def _too_fast(trial: HostileTrial, node: NodeSpec, seen: TrialSeen) -> tuple[str, str] | None:
    allowed = declared_of(trial, node)
    if seen.achieved is None or seen.achieved < LEAST * allowed:
        ended = f": {seen.reason}" if seen.reason else ""
        return UNTRIED, f"it used too little to tell{ended}"
    beyond = seen.achieved - allowed * (1 + TOO_MUCH[trial.resource])
    if beyond <= 0:
        return None
    if beyond > seen.resolution:
        return BREAKS, ""
    return (
        UNTRIED,
        f"{TOO_CLOSE} {seen.resolution / allowed:.1%} of that cannot be told in so short a time",
    )


def _too_much_memory(node: NodeSpec, seen: TrialSeen) -> tuple[str, str] | None:
    if seen.achieved is None:
        return UNTRIED, f"it ended before it was seen: {seen.reason}"
    if seen.achieved > attempt_memory(node) + HELD_ROOM_BYTES:
        return BREAKS, "it got it"
    if OVER_MEMORY not in seen.reason:
        return BREAKS, f"stopped, but the attempt {seen.state}: {seen.reason or 'without a reason'}"
    return None


def _too_many(seen: TrialSeen, most_processes: int) -> tuple[str, str] | None:
    if seen.achieved is None or seen.achieved < 2:
        return UNTRIED, f"it made no processes: {seen.reason}"
    bound = most_processes if seen.pids_limit is None else seen.pids_limit
    return None if seen.achieved <= bound else (BREAKS, "")
