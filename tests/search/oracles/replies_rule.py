"""Reference for a heartbeat's answer: the launches, kills and map outputs that the node must receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedbed.cluster.messages import ForgetJob, Heartbeat, KillAttempt, Launch, MapOutputs, Reply, Reregister
from schedbed.scheduler.core.rows import Discard
from schedbed.tasks.specs import TaskKind
from tests.search.violation import Violation, hold

REDUCE = TaskKind.REDUCE
TOLD = "a node is told what it needs"


class RepliesRule:
    """Follows the first answer to each heartbeat, and the reported moves of blocks."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[str, int, str], tuple[list[Any], bool]] = {}
        self._killed: dict[str, int] = {}  # Sequence of the heartbeat that ordered the kill, by attempt.
        self._hosts: dict[str, tuple[str, ...]] = {}  # New holders of moved blocks.

    def answered(self, core: Any, heartbeat: Heartbeat, reply: Reply, ended: Sequence[Any]) -> None:
        """Check the answer to a new heartbeat; `ended` has the rows of attempts that the heartbeat ended."""
        node = core.ledger.nodes.get(heartbeat.node)
        hold(reply.sequence == heartbeat.sequence, TOLD, f"{reply} to beat {heartbeat.sequence}")
        if node is None or not node.alive or node.incarnation != heartbeat.incarnation:
            hold(reply.actions == (Reregister(),), "an unknown node registers", f"{heartbeat.node}: {reply}")
            return
        launches = {action.attempt: action for action in reply.actions if isinstance(action, Launch)}
        new = {name: each for name, each in node.attempts.items() if each.sequence == heartbeat.sequence}
        hold(launches.keys() == new.keys(), TOLD, f"{heartbeat.node} launches {set(launches)} of {set(new)}")
        for name, told in launches.items():
            task = new[name].task
            wanted = Launch(name, task.job.job, task.kind, task.index, task.part)
            hold(told == wanted, TOLD, f"{told} instead of {wanted}")
        self._check_kills(node, heartbeat, reply)
        self._check_outputs(node, heartbeat, reply)
        self._check_forgotten(core, heartbeat, reply, ended)

    def _check_kills(self, node: Any, heartbeat: Heartbeat, reply: Reply) -> None:
        """Check that each attempt to be killed is in the answer at once.

        The order must come again while the node still lists the attempt.
        """
        kills = [action.attempt for action in reply.actions if isinstance(action, KillAttempt)]
        told = set(kills)
        hold(len(kills) == len(told), TOLD, f"{heartbeat.node} is told twice to stop one of {kills}")
        listed = {status.attempt for status in heartbeat.running}
        for name, attempt in node.attempts.items():
            if attempt.state == "killing":
                first = self._killed.setdefault(name, heartbeat.sequence)
                due = first == heartbeat.sequence or (name in listed and heartbeat.sequence > first + 1)
                hold(name in told or not due, TOLD, f"{heartbeat.node} is not told to stop {name}")
            else:
                hold(name not in told, TOLD, f"{heartbeat.node} is told to stop {name}, which is wanted")
        strays = listed - node.attempts.keys() - told
        hold(not strays, TOLD, f"{heartbeat.node} runs {strays}, which nobody wants")

    def _check_outputs(self, node: Any, heartbeat: Heartbeat, reply: Reply) -> None:
        """Check that a node with reduces of a job knows all map outputs so far.

        The node must also know whether all maps are done.
        """
        life = heartbeat.node, heartbeat.incarnation
        older = {
            a.task.job.job
            for a in node.attempts.values()
            if a.sequence < heartbeat.sequence and a.task.kind is REDUCE
        }
        for key in [key for key in self._outputs if key[:2] == life and key[2] not in older]:
            del self._outputs[key]
        for action in reply.actions:
            if isinstance(action, MapOutputs):
                known, complete = self._outputs.get((*life, action.job), ([], False))
                news = action.outputs or action.all_done is not complete
                hold(news, "a node is told what is new", f"{heartbeat.node}: {action}")
                self._outputs[*life, action.job] = ([*known, *action.outputs], action.all_done)
        reduces = [each.task.job for each in node.attempts.values() if each.task.kind is REDUCE]
        jobs = {job.job: job for job in reduces if job.active}
        for name, job in jobs.items():
            done = all(task.state == "done" for task in job.maps.tasks)
            known, complete = self._outputs.get((*life, name), ([], False))
            seen = f"{heartbeat.node} knows {len(known)} of {len(job.outputs)} outputs of {name}, {complete}"
            hold(known == job.outputs and complete == done, TOLD, seen)

    def _check_forgotten(self, core: Any, heartbeat: Heartbeat, reply: Reply, ended: Sequence[Any]) -> None:
        """Check that a node is told to forget ended jobs only.

        It must be told so for each ended job whose map may have left output on the node.
        """
        jobs = [action.job for action in reply.actions if isinstance(action, ForgetJob)]
        active = [job for job in jobs if job in core.ledger.jobs]
        hold(not active, "nodes forget jobs that have ended", f"{heartbeat.node} is to forget {active}")
        reported = {report.attempt: report.state for report in heartbeat.finished}
        for row in ended:
            job = core.ledger.ended.get(row.job)
            if row.kind != "map" or row.node != heartbeat.node or job is None or not job.reduces.total:
                continue
            left = row.state == "killed" and reported.get(row.attempt, "succeeded") == "succeeded"
            seen = f"{heartbeat.node} is not to forget {row.job}: {row}"
            hold(not left or row.job in jobs, "nodes forget jobs that have ended", seen)

    def discarded(self, core: Any, ended: list[Any]) -> None:
        """Check that output files of ended attempts are discarded, unless the attempt succeeded."""
        dropped = {effect.attempt for effect in core.ledger.effects if isinstance(effect, Discard)}
        jobs = {**core.ledger.ended, **core.ledger.jobs}
        for row in ended:
            writes = row.kind == "reduce" or not jobs[row.job].reduces.total
            unwanted = writes and row.state != "succeeded"
            seen = f"{row.attempt} {row.state}, {sorted(dropped)}"
            hold((row.attempt in dropped) is unwanted, "only what is not wanted is deleted", seen)

    def moved(self, core: Any, block: str, hosts: tuple[str, ...]) -> None:
        """Check that all maps of a block prefer its new nodes."""
        self._hosts[block] = hosts
        for job in core.ledger.jobs.values():
            self.check_hosts(core, job, block)

    def forget(self, block: str) -> None:
        """Drop a block that no job reads, so that later jobs start from the nodes in their splits."""
        self._hosts.pop(block, None)

    def check_hosts(self, core: Any, job: Any, block: str | None = None) -> None:
        """Check that each map of a job, or of one block, prefers the nodes and racks that hold its block."""
        racks = core.ledger.rack_by_node
        tasks = job.maps.tasks
        for task in tasks if block is None else [each for each in tasks if each.split.block == block]:
            hosts: Any = self._hosts.get(task.split.block or "", task.split.hosts)
            near = {racks[host] for host in hosts if host in racks}
            if task.hosts != hosts or set(task.racks) != near:
                seen = f"{task.task} at {task.hosts} in {task.racks} instead of {hosts} in {near}"
                raise Violation("maps go where their input is", seen)
