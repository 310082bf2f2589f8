"""`schedbed policy check`: simulate a user's policy several times in small scenarios, and report errors."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.side_by_side import apart
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.worker_fork import ApartFailed, CutOff
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.guard.guarded_policy import GuardedPolicy
from schedbed.scheduler.policy import PolicyError
from schedbed.scheduler.registry.policy_spec import is_policy_file
from schedbed.scheduler.simulate.setup import Stuck
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput

Say = Callable[[str], None]
TIMES_LONGER, PATIENCE_S = 20.0, 600.0
"""A simulation counts as endless after this factor times its duration under `fifo`, plus these virtual seconds."""
SNAPSHOT_EVERY = 50
"""Number of events between snapshots of the JobTracker, small so that `state` and `restore` are called."""
WALL_S = 8.0
"""Real seconds that a simulation may take; under `fifo` all take less than one."""
LATER_JOBS = 10
"""A job starves when it starts nothing until that number of jobs submitted later have ended."""
CHILD_S, CHILD_TIMES = 10.0, 4.0
"""Real seconds that the other process may take: constant, plus a factor on the time taken here."""
NUMBERS = re.compile(r"\d[\d.,]*")
CHILD = "import sys; from schedbed.deploy.studies.policy_check import answer_child; answer_child(sys.argv[1])"


@dataclass(slots=True)
class StoryResult:
    """The result of simulating a policy in one small scenario (story), filled by the simulator row by row.

    `failure` is why the simulation ended early, and `difference` an answer that differed after a restart of
    the JobTracker.
    """

    decisions: list[DecisionRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    end_s: float = 0.0
    failure: str = ""
    difference: str = ""

    def decision(self, row: DecisionRow) -> None:
        self.decisions.append(row)

    def job(self, row: JobRow) -> None:
        self.jobs.append(row)

    def attempt(self, row: AttemptRow) -> None:
        """Ignore the row of an ended attempt, which the check does not need."""

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Ignore the row of a heartbeat, which the check does not need."""

    def block(self, row: tuple[object, ...]) -> None:
        """Ignore the row of a block, which the check does not need."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Ignore the row of a fault, which the check does not need."""

    def lines(self) -> list[str]:
        """Return each decision as a line, to compare simulations."""
        return [repr(tuple(row)) for row in self.decisions]


@dataclass(slots=True)
class PolicyFinding:
    """An error of a policy: a text with the file and line, and the names of scenarios that showed it."""

    text: str
    stories: dict[str, None] = field(default_factory=dict)

    def line(self) -> str:
        """Return one line with the text of the error and the scenarios in which it occurred."""
        first, *more = self.stories
        also = f" and {len(more)} more" if more else ""
        return f"{self.text}, in: {first}{also}"


def run_story(
    name: str, choice: PolicyChoice, end_s: float | None = None, *, all_heartbeats: bool = False
) -> StoryResult:
    """Simulate a story under a policy.

    `end_s` is the virtual time at which it ends under `fifo`; a much longer simulation is stopped as a
    failure. With `all_heartbeats`, no heartbeat is skipped to save time.
    """
    scenario = resolve(STORIES[name])
    finished = StoryResult()
    simulation: Simulation | None = None
    until_s = time.monotonic() + WALL_S
    try:
        setup = setup_of(scenario, choice, 0, costs_of(scenario), Latencies())
        setup = replace(setup, snapshot_every=SNAPSHOT_EVERY, process_all_heartbeats=all_heartbeats)
        simulation = Simulation(setup, finished)
        while simulation.step():
            if end_s is not None and simulation.now_s > TIMES_LONGER * end_s + PATIENCE_S:
                finished.failure = f"no end after {simulation.now_s:.0f} s, under fifo {end_s:.0f} s"
                break
            if time.monotonic() > until_s:
                finished.failure = f"too slow: {WALL_S:g} s for {simulation.now_s:.0f} s of a small cluster"
                break
    except (PolicyError, Stuck) as error:
        finished.failure = str(error)
    if simulation is not None:
        finished.end_s = simulation.now_s
        finished.difference = simulation.master.report().get("replay", "")
    return finished


class PolicyCheck:
    """The check of one user's policy: simulates it, and collects errors in `found` and remarks in `notes`."""

    def __init__(self, choice: PolicyChoice) -> None:
        self.choice = choice
        policy: Any = choice.build(scale=1.0, store="none")
        assert isinstance(policy, GuardedPolicy)
        self._policy = policy
        self._file = Path(choice.spec.partition(".py:")[0] + ".py")
        self.found: dict[str, PolicyFinding] = {}
        self.notes: dict[str, PolicyFinding] = {}

    def parameters(self) -> str:
        """Return the policy's parameters with their defaults as text."""
        parameters = inspect.signature(type(self._policy.own)).parameters.values()
        shown = [
            f"{each.name}={each.default!r}" if each.default is not each.empty else f"{each.name} (required)"
            for each in parameters
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        ]
        return ", ".join(shown) or "none"

    def _add(self, story: str, text: str, *, method: str = "decide", note: bool = False) -> None:
        """Add an error (or with `note` a remark) that occurred in a story.

        Texts that differ only in numbers become one. One without a line of the policy's file gets that of
        `method`.
        """
        if f"{self._file.name}, line" not in text:
            text = f"{text} ({self._policy.line_of(method)})"
        said, _, line = text.rpartition("(")
        alike = f"{NUMBERS.sub('#', said)}{line}"
        finding = (self.notes if note else self.found).setdefault(alike, PolicyFinding(text))
        finding.stories[story] = None

    # ------------------------------------------------------------------ stories

    def look_at(self, story: str, finished: StoryResult, fifo: StoryResult) -> None:
        """Add the errors found: failures, illegal proposals, failed and starved jobs, compared with `fifo`."""
        if finished.failure:
            self._add(story, finished.failure)
        if finished.difference:
            self._add(story, finished.difference)
        rejected = [row for row in finished.decisions if row.answer == "reject"]
        if rejected:
            first = rejected[0]
            about = f"{first.task or 'an answer'} on {first.node} at {first.t:.1f} s: {first.reason}"
            method = "preempt" if "pre-empted" in first.reason or "Kill" in first.reason else "decide"
            self._add(story, f"{len(rejected)} illegal proposals, the first: {about}", method=method)
        good = {row.job for row in fifo.jobs if row.state == "succeeded"}
        lost = sorted(row.job for row in finished.jobs if row.job in good and row.state != "succeeded")
        if lost:
            self._add(story, f"jobs fail that succeed under fifo: {', '.join(lost)}")
        starved = _starved(finished.jobs)
        if starved and not finished.failure:
            self._add(story, starved, note=True)

    def compare(self, story: str, first: Sequence[str], again: Sequence[str], *, by_process: bool) -> bool:
        """Return whether two simulations decided the same, and add the first difference as an error.

        With `by_process`, they ran in different processes.
        """
        if first == again:
            return True
        pairs = zip((*first, "the end"), (*again, "the end"), strict=False)
        one, other = next(pair for pair in pairs if pair[0] != pair[1])
        how = "in two processes" if by_process else "twice in one process"
        suspects = chance_suspects(self._file, type(self._policy.own), by_process=by_process)
        if not suspects:
            self._add(story, f"cannot be repeated ({how}): first {one}, then {other}")
        for text in suspects:
            self._add(story, f"cannot be repeated ({how}): {text}")
        return False

    def compare_heartbeats(self, story: str, first: Sequence[str], end_s: float) -> bool:
        """Return whether a story decides as in `first` without skipped heartbeats, and add a difference.

        `end_s` is when it ends under `fifo`.
        """
        all_heartbeats = run_story(story, self.choice, end_s, all_heartbeats=True).lines()
        if first == all_heartbeats:
            return True
        if self.compare(story, first, run_story(story, self.choice, end_s).lines(), by_process=False):
            pairs = zip((*first, "the end"), (*all_heartbeats, "the end"), strict=False)
            one, other = next(pair for pair in pairs if pair[0] != pair[1])
            self._add(story, f"quiet promises too much: {one}, with every heartbeat {other}")
        return False

    def run_stories(self, say: Say) -> None:
        """Simulate each story with and without skipped heartbeats, and again in another process.

        The other process has another hash seed, so that the order of sets differs.
        """
        fifo = policies_of(["fifo"])[0]
        first: dict[str, list[str]] = {}
        began_s = time.monotonic()
        for story in STORIES:
            usual = run_story(story, fifo)
            finished = run_story(story, self.choice, usual.end_s)
            say(f"  {story:24} {_told(finished):>10}   fifo {usual.end_s:.0f} s")
            self.look_at(story, finished, usual)
            if "has not ended after" in finished.failure or finished.failure.startswith("too slow"):
                return
            if not finished.failure and self.compare_heartbeats(story, finished.lines(), usual.end_s):
                first[story] = finished.lines()
        if first and len(first) == len(STORIES):
            most_s = CHILD_S + CHILD_TIMES * (time.monotonic() - began_s)
            say(f"  all once more in another process, which takes {most_s:.0f} s at most")
            again = _child(self.choice, list(first), most_s)
            if not again:
                self._add("all stories", f"another process has not repeated them within {most_s:.0f} s")
            for story, lines in again.items():
                if not self.compare(story, first[story], lines, by_process=True):
                    break


def check_policy(spec: str, say: Say) -> None:
    """Check the policy and print each error.

    Raises BadInput if `spec` is not a valid policy of a user, RunFailed if an error was found.
    """
    if not is_policy_file(spec):
        raise BadInput(f"policy check {spec}: expected FILE.py:Class, a policy of your own")
    [choice] = policies_of([spec])
    say(f"{spec}")
    try:
        found = apart(lambda send: _check_here(choice, send), say, file=spec.rpartition(":")[0])
    except (CutOff, ApartFailed) as error:
        found = [str(error)]
    for line in found:
        say(f"found: {line}")
    if found:
        count = len(found)
        raise RunFailed(f"policy check {spec}: {count} finding{'s' if count > 1 else ''}")
    say(
        "Nothing found: no illegal proposal, no starvation of all, no livelock; the same seed gives the same run."
    )


def _check_here(choice: PolicyChoice, say: Say) -> list[str]:
    """Check a policy in this process. Print remarks with `say`, and return the errors as lines of text."""
    check = PolicyCheck(choice)
    say(f"  parameters: {check.parameters()}")
    check.run_stories(say)
    for finding in check.notes.values():
        say(f"note: {finding.line()}")
    return [finding.line() for finding in check.found.values()]


def _told(finished: StoryResult) -> str:
    return "fails" if finished.failure else f"{finished.end_s:.0f} s"


def _starved(jobs: Sequence[JobRow]) -> str:
    """Return text on a job that started no task until many later ones had ended, or ""."""
    for job in jobs:
        if job.start is None:
            continue
        later = sum(other.submit > job.submit and (other.finish or 0.0) < job.start for other in jobs)
        if later >= LATER_JOBS:
            wait_s = job.start - job.submit
            return f"starvation: {job.job} waits {wait_s:.0f} s while {later} jobs that came later end"
    return ""


def _child(choice: PolicyChoice, stories: Sequence[str], most_s: float) -> dict[str, list[str]]:
    """Return stories' decisions in another process, none if it fails or takes over `most_s` real seconds."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-c", CHILD, json.dumps([choice.given, *stories])]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=most_s,
            text=True,
            check=False,
        )
        return json.loads(done.stdout.rpartition("\n")[2]) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        return {}


def answer_child(given: str) -> None:
    """Simulate the policy and stories in `given` (JSON) for `_child`, and print the decisions."""
    own, *stories = json.loads(given)
    choice = PolicyChoice(spec="own", given=own)
    print("\n" + json.dumps({story: run_story(story, choice).lines() for story in stories}), end="")


# Finds code in a policy's file whose result may differ between two runs with the same seed.
#
# Examples are clocks, random numbers, and the order of sets.

MOST = 3
PROCESS = "in each process"
SOURCES = {
    "random": "draws without the run's seed: use view.random",
    "secrets": "draws without the run's seed: use view.random",
    "uuid": "differs in each run: use view.random",
    "time": "is the host's clock: use view.now_s",
    "datetime": "is the host's clock: use view.now_s",
    "os": "is the host's state, not the cluster's",
}
BUILT_IN = {
    "id": f"is an address that differs {PROCESS}",
    "hash": f"differs {PROCESS} for texts",
    "open": "reads what may have changed",
}


def chance_suspects(file: Path, made: type, *, by_process: bool = False) -> list[str]:
    """Return at most 3 messages about code in a policy's file whose result does not depend on the seed alone.

    Other policies in `file` than `made` and its base classes are ignored. With `by_process`, only code is
    reported whose result differs between processes alone, such as the order of a set.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    imported = _imported(tree)
    parts = [part for part in tree.body if not _is_other_policy(part, made)]
    found = sorted({suspect for part in parts for suspect in _suspects(part, imported)})
    told = [f"{text} ({file.name}, line {line})" for line, text in found]
    return [text for text in told if PROCESS in text or not by_process][:MOST]


def _is_other_policy(part: ast.stmt, made: type) -> bool:
    """Return whether `part` defines a policy that is neither `made` nor its base class."""
    if not isinstance(part, ast.ClassDef) or part.name in {each.__name__ for each in made.__mro__}:
        return False
    names = getattr(getattr(made, "decide", None), "__globals__", {})
    return hasattr(names.get(part.name), "decide")


def _suspects(part: ast.AST, imported: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and imported.get(node.id) in SOURCES:
            yield node.lineno, f"{node.id} {SOURCES[imported[node.id]]}"
        elif isinstance(node, ast.Name) and node.id in BUILT_IN:
            yield node.lineno, f"{node.id} {BUILT_IN[node.id]}"
        if _is_set(node):
            yield node.lineno, f"a set has another order {PROCESS}: use sorted or a dict"


def _imported(tree: ast.AST) -> dict[str, str]:
    """Return a dictionary from each imported name to the top-level module that the name comes from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                names[(each.asname or each.name).partition(".")[0]] = each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: node.module.partition(".")[0] for each in node.names}
    return names


def _is_set(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset")


# The scenarios that `schedbed policy check` simulates: small clusters with typical faults.

NODE = {
    "cores": 2,
    "core_speed": 1.0,
    "memory": "2GiB",
    "disk": "100MB/s",
    "network": "1Gbit/s",
    "map_slots": 2,
    "reduce_slots": 1,
}


def _jobs(count: int, maps: int, **more: Any) -> dict[str, Any]:
    map_of = {"cpu": "4s", "read": "64MiB", "write": "16MiB"}
    burn = {"app": "synthetic", "maps": maps, "map": map_of, "reduces": 1, "reduce": {"cpu": "3s"}}
    return {"name": f"burn{maps}", "count": count, **burn, **more}


def _story(
    jobs: list[dict[str, Any]], *faults: Mapping[str, Any], nodes: int = 3, **more: Any
) -> dict[str, Any]:
    return {
        "name": "story",
        "seed": 1,
        "cluster": {"nodes": nodes, "racks": 2, "node": NODE},
        "blocks": {"size": "64MiB", "replication": 2},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
        "profiles": {"store": "none"},
        "faults": list(faults),
        **more,
    }


_THREE = [
    _jobs(1, 12, user="ana", deadline="5m"),
    _jobs(1, 6, user="bo", submit="5s", priority="high"),
    _jobs(1, 3, user="cy", submit="12s", reduces=0),
]
_USERS = ("ana", "bo", "cy")
_STREAM = [
    _jobs(1, 30, user="ana"),
    *(_jobs(1, 2, user="bo", submit=f"{5 + 3 * number}s") for number in range(20)),
]
STORIES: dict[str, dict[str, Any]] = {
    "a small cluster": _story(_THREE),
    "a full disk": _story(_THREE, {"at": "3s", "fill_disk": "n1"}),
    "a lost node": _story(_THREE, {"at": "8s", "kill": "n2"}),
    "a node that comes back": _story(_THREE, {"at": "8s", "partition": ["n2"], "for": "20s"}),
    "JobTracker restarts": _story(
        _THREE,
        {"at": "6s", "crash": "jobtracker", "for": "3s"},
        {"at": "15s", "crash": "jobtracker", "for": "3s"},
    ),
    "more jobs than slots": _story(
        [_jobs(7, 4, user=user, submit=f"{place}s") for place, user in enumerate(_USERS)],
        nodes=2,
    ),
    "a stream of small jobs": _story(_STREAM),
    "a slow node and copies": _story(
        _THREE,
        {"at": "1s", "slow": "n3", "cpu": 0.1},
        speculation={"late": {"cap": 0.3, "min_runtime": "5s"}},
    ),
}
"""The scenarios by name."""
