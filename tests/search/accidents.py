"""Faults of attempts in a test scenario: a wrapper of the simulator's emulation that makes attempts fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.node_model import AttemptPlan, Happening, TaskCost
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, NodeId, TaskKind
from tests.search.story import Story, StoryFault
from tests.search.violation import hold

MIB = 2**20
BAD_LUCK, BAD_NODE, BAD_COMMIT = "bad luck", "bad node", "bad commit"
GIVEN_UP = "its node was given up"
INJECTED = (BAD_LUCK, BAD_NODE, BAD_COMMIT)


class Accidents:
    """An `Emulation` that passes all calls to another one, and adds the test scenario's faults.

    `plans` has all launched attempts, `running` those still running by node, `reports` the reports of ended
    ones, `consumed` the map attempts whose outputs each ended reduce has read.
    """

    def __init__(self, inner: Any, story: Story) -> None:
        self._inner = inner
        self._story = story
        self._bad = [fault for fault in story.faults if fault.kind == "bad_node"]
        self._lost = [fault for fault in story.faults if fault.kind == "lose_output"]
        self._orders = 0
        self.plans: dict[str, AttemptPlan] = {}
        self.reports: dict[str, AttemptReport] = {}
        self.consumed: dict[str, dict[int, str]] = {}
        self.running: dict[NodeId, dict[str, AttemptPlan]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """Implement `Emulation.launch`: make chosen attempts fail half-way, and lose some launches."""
        hold(plan.attempt not in self.plans, "launched once", plan.attempt)
        self.plans[plan.attempt] = plan
        if self._is_lost("launch", plan.attempt):
            return
        self.running.setdefault(node, {})[plan.attempt] = plan
        reason = self._failure(now_s, node, plan.attempt)
        if reason:
            plan = replace(plan, fails_after=0.5, failure=reason)
        self._inner.launch(now_s, node, plan)

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """Implement `Emulation.kill`: the order may be lost, unless the attempt is killed because its node
        was given up.
        """
        self._orders += 1
        if reason == GIVEN_UP or not self._is_lost("kill", f"{attempt}/{self._orders}"):
            self._inner.kill(now_s, node, attempt, reason)

    def _is_lost(self, what: str, attempt: str) -> bool:
        share = self._story.lost_orders
        return bool(share) and chance(self._story.seed, "lost", what, attempt).random() < share

    def _failure(self, now_s: float, node: NodeId, attempt: str) -> str:
        if any(node in bad.nodes and bad.at_s <= now_s < (bad.until_s or now_s + 1) for bad in self._bad):
            return BAD_NODE
        first = attempt.endswith("_0")
        unlucky = chance(self._story.seed, "failing", attempt).random() < self._story.failing
        return BAD_LUCK if first and unlucky else ""

    def next_s(self) -> float:
        """Implement `Emulation.next_s`: include the times at which outputs are lost."""
        return min(self._inner.next_s(), self._lost[0].at_s) if self._lost else self._inner.next_s()

    def advance(self, now_s: float) -> list[Happening]:
        """Implement `Emulation.advance`: record the reports, and lose some."""
        while self._lost and self._lost[0].at_s <= now_s:
            self._lose(self._lost.pop(0))
        happenings = self._inner.advance(now_s)
        for node, what in happenings:
            if isinstance(what, AttemptReport):
                plan = self.running[node].pop(what.attempt)
                self.reports[what.attempt] = what
                if what.state == "succeeded" and plan.kind is TaskKind.REDUCE:
                    self.consumed[what.attempt] = self._inner.pop_consumed(what.attempt)
        return [each for each in happenings if not self._is_report_lost(each[1])]

    def _is_report_lost(self, what: object) -> bool:
        return isinstance(what, AttemptReport) and self._is_lost("report", what.attempt)

    def left_outputs(self, node: NodeId) -> list[str]:
        """Return the jobs that have map outputs on the node."""
        inner = self._inner
        nodes = inner._nodes if isinstance(inner, ExactEmulation) else inner._world.hosts
        return [job for job, outputs in nodes[node].outputs.items() if outputs] if node in nodes else []

    def node_down(self, now_s: float, node: NodeId) -> None:
        """Implement `Emulation.node_down`: forget the node's running attempts."""
        self.running.pop(node, None)
        self._inner.node_down(now_s, node)

    def _lose(self, fault: StoryFault) -> None:
        inner = self._inner
        if isinstance(inner, ExactEmulation):
            inner._accidents = True
            for node in [inner._nodes[name] for name in fault.nodes if name in inner._nodes]:
                for job in tuple(node.outputs):
                    inner._forget_outputs(node, job)
            return
        for name in fault.nodes:
            if name in inner._world.hosts:
                inner._world.hosts[name].outputs.clear()


class StoryCosts:
    """A `CostModel` with the test scenario's mean times, each multiplied by a factor from 0.5 to 1.5.

    The seed draws the factors.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._jobs = dict(zip(story.job_names(), story.jobs, strict=True))

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.map_cost` with the job's mean map time."""
        known = self._jobs.get(job.job)
        if known is None:
            return TaskCost(duration_s=0.0)
        output = 0 if job.reduces else known.output_mib * MIB
        return self._cost(job.job, "m", index, known.map_s, known.input_mib * MIB, output)

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.reduce_cost` with the job's mean reduce time."""
        known = self._jobs[job.job]
        return self._cost(job.job, "r", index, known.reduce_s, 0, known.output_mib * MIB)

    def _cost(self, job: str, kind: str, index: int, mean_s: float, read: int, output: int) -> TaskCost:
        factor = chance(self._story.seed, "cost", job, kind, index).uniform(0.5, 1.5)
        seconds = mean_s * factor
        if self._story.contention:
            return TaskCost(cpu_s=seconds, read_bytes=read, output_bytes=output)
        return TaskCost(duration_s=seconds, read_bytes=read, output_bytes=output)
