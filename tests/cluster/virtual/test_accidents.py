"""Random accidents: each attempt is reported once or disappears with its node, and the emulation ends."""

from __future__ import annotations

import pytest

from schedbed.cluster.messages import AttemptReport, MapOutput, MapOutputs
from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import Emulation, Happening
from schedbed.tasks.chance import chance
from tests.harness.simulation import MB, Blocks, map_plan, node, reduce_plan

NODES = [f"n{number}" for number in range(5)]
EVENTS = 150


class Storm:
    """Random launches and accidents, drawn from a seed."""

    def __init__(self, emulation: Emulation, store: Blocks, seed: int) -> None:
        self.emulation = emulation
        self.store = store
        self.luck = chance(seed, "storm")
        self.running: dict[str, str] = {}
        self.up: dict[str, None] = {}
        self.outputs: dict[int, MapOutput] = {}
        self.number = 0
        for name in NODES:
            self._up(0.0, name)

    def _up(self, now_s: float, name: str) -> None:
        self.emulation.node_up(now_s, node(name))
        self.up[name] = None

    def step(self, now_s: float) -> None:
        """Apply one random launch or accident to the emulation."""
        luck, name = self.luck, self.luck.choice(NODES)
        match luck.randint(0, 9):
            case 0 if name in self.up:
                self.emulation.node_down(now_s, name)
                del self.up[name]
                self.running = {attempt: where for attempt, where in self.running.items() if where != name}
                for index, output in self.outputs.items():
                    if output.node == name:
                        self.outputs[index] = MapOutput(
                            index=index, attempt=output.attempt, node=name, lost=True
                        )
            case 1 if name not in self.up:
                self._up(now_s, name)
            case 2:
                self.emulation.set_rates(now_s, name, *(luck.choice((0.0, 0.3, 1.0)) for _ in range(3)))
            case 3:
                self.emulation.partition(now_s, luck.choice(((), [NODES[:2]])))
            case 4 if self.running:
                attempt = luck.choice(list(self.running))
                self.emulation.kill(now_s, self.running[attempt], attempt, "storm")
            case 5 if name in self.up:
                self._news(now_s, name)
            case _ if name in self.up:
                self._launch(now_s, name)

    def _launch(self, now_s: float, name: str) -> None:
        luck, self.number = self.luck, self.number + 1
        amounts = {
            "cpu_s": luck.random() * 3,
            "output_bytes": luck.randint(0, 60) * MB,
            "start_s": luck.random(),
        }
        if luck.random() < 0.6:
            index = luck.randint(0, 5)
            blocks = [(f"b{luck.randint(0, 5)}", luck.randint(0, 50) * MB)]
            plan = map_plan(index, blocks, number=self.number, sort_cpu_s=luck.choice((0.0, 0.5)), **amounts)
        else:
            plan = reduce_plan(
                0, number=self.number, output="/o", replication=2, block_bytes=25 * MB, **amounts
            )
        self.running[plan.attempt] = name
        self.emulation.launch(now_s, name, plan)

    def _news(self, now_s: float, name: str) -> None:
        known = tuple(self.outputs.values())
        self.emulation.map_outputs(now_s, name, MapOutputs(job="job_1", outputs=known, all_done=bool(known)))

    def hear(self, happenings: list[Happening]) -> None:
        """Check that each report is of an attempt that runs on the reporting node, and record map outputs."""
        for name, said in happenings:
            if isinstance(said, AttemptReport):
                assert self.running.pop(said.attempt) == name
                assert said.end_s >= said.start_s or said.state == "killed"
                if "_m_" in said.attempt and said.state == "succeeded":
                    index = int(said.attempt.split("_")[3])
                    self.outputs[index] = MapOutput(index=index, attempt=said.attempt, node=name)
            else:
                assert self.running[said.reduce_attempt] == name


@pytest.mark.parametrize("kind", ["exact", "fluid"])
@pytest.mark.parametrize("seed", range(8))
def test_every_attempt_ends_once(kind: str, seed: int) -> None:
    store = Blocks(
        {f"b{index}": [NODES[index % 5], NODES[index % 3]] for index in range(6)}, others=NODES[1:3]
    )
    emulation = ExactEmulation(store) if kind == "exact" else FluidEmulation(store, Latencies())
    storm = Storm(emulation, store, seed)
    now_s = 0.0
    for _ in range(EVENTS):
        now_s += storm.luck.random()
        while emulation.next_s() < now_s:
            storm.hear(emulation.advance(emulation.next_s()))
        storm.hear(emulation.advance(now_s))
        storm.step(now_s)
        for name in storm.up:
            assert all(0.0 <= status.progress <= 1.0 for status in emulation.statuses(now_s, name))
            usage = emulation.usage(now_s, name)
            assert 0.0 <= min(usage.cpu_util, usage.disk_util, usage.net_util) <= 1.0
    emulation.partition(now_s, ())
    for name in NODES:
        if name not in storm.up:
            storm._up(now_s, name)
        emulation.set_rates(now_s, name, 1.0, 1.0, 1.0)
    storm.outputs = {}
    for index in range(6):
        plan = map_plan(index, number=1000 + index, cpu_s=1.0, output_bytes=MB)
        storm.running[plan.attempt] = "n0"
        emulation.launch(now_s, "n0", plan)
    for round_s in range(1, 2000):
        storm.hear(emulation.advance(now_s + round_s))
        if round_s % 50 == 0:
            for name in NODES:
                storm._news(now_s + round_s, name)
    assert not storm.running
