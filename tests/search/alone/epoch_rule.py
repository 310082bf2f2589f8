"""Reference for the replicas that the replication schemes Scarlett and CDRM want (xu2015 3.2.1, 3.2.3).

It computes the number of replicas and their nodes at the end of each epoch from all samples of the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import factorial
from typing import Any

from schedbed.cluster.spec import DynamicReplicas
from tests.search.violation import hold

CHECK = "replicas follow what was read"
Reading = Mapping[str, int]
Serving = Mapping[str, tuple[float, int]]


class EpochRule:
    """Follows the reads of inputs and compares the NameNode's targets with the expected ones.

    `known` is the model of the replicas (`KnownReplicas`). Without a `scheme` no target is ever raised.
    """

    def __init__(self, known: Any, scheme: DynamicReplicas | None) -> None:
        self._known, self.scheme = known, scheme

    def start_over(self, names: Any) -> None:
        """Begin with a new NameNode that has received no samples of reads."""
        self._part = names._blocks._replication
        self._begin_s = 0.0
        self._samples: list[tuple[Reading, Serving]] = []
        self._raised: dict[str, tuple[str, int, float]] = {}
        self._replicas: dict[str, int] = {}  # The target of each input after the last epoch.
        self._loads: dict[str, float] | None = None
        self._slots: dict[str, int] = {}
        self._turns: list[str] = []
        raise_target = self._part.raise_target

        def raised(block: str, *arguments: Any) -> None:
            self._turns.append(block)
            raise_target(block, *arguments)

        self._part.raise_target = raised

    # ----------------------------------------------------------- what happens

    def noted(
        self,
        now_s: float,
        reading: Reading,
        serving: Serving,
        inputs: Mapping[str, Mapping[str, int]],
        bases: Mapping[str, int],
    ) -> None:
        """Add a sample, and recompute all targets at the end of an epoch.

        `inputs` has the blocks with their bytes of each finished input, `bases` the declared number of
        replicas.
        """
        assert self.scheme is not None
        self._samples.append((reading, serving))
        if now_s < self._begin_s + self.scheme.epoch_s:
            hold(not self._turns, CHECK, f"{now_s}: changed within an epoch")
            return
        self._begin_s, samples, self._samples = now_s, self._samples, []
        most = {path: max(reading.get(path, 0) for reading, _ in samples) for path in inputs}
        wanted = self._wanted(inputs, bases, most)
        shares = {path: most[path] / max(1, len(inputs[path])) / wanted[path] for path in inputs}
        self._slots = {node: slots for _, serving in samples for node, (_, slots) in serving.items()}
        self._loads = {}
        if self.scheme.scheme == "scarlett":
            for path, blocks in inputs.items():
                for node in [node for block in blocks for node in self._known.good(block)]:
                    self._loads[node] = self._loads.get(node, 0.0) + shares[path]
        else:
            for _, serving in samples:
                for node, (requests, _) in serving.items():
                    self._loads[node] = self._loads.get(node, 0.0) + requests
            self._loads = {node: requests / len(samples) for node, requests in self._loads.items()}
        self._check_turns(now_s, inputs, bases, wanted)
        for path, blocks in inputs.items():
            for block in blocks:
                self._known.retarget(block, wanted[path])
                self._raised.pop(block, None)
                if wanted[path] > bases[path]:
                    self._raised[block] = self.scheme.scheme, bases[path], shares[path]
        self._replicas = wanted

    def _wanted(
        self, inputs: Mapping[str, Mapping[str, int]], bases: Mapping[str, int], most: Mapping[str, int]
    ) -> dict[str, int]:
        scheme, live = self.scheme, self._known.live_nodes()
        assert scheme is not None
        if scheme.scheme == "cdrm":
            return {
                path: next(
                    count
                    for count in range(bases[path], max(bases[path], live) + 1)
                    if count >= live or (1 - scheme.failure**count) ** len(blocks) >= scheme.availability
                )
                for path, blocks in inputs.items()
            }
        left = scheme.budget * self._known.inputs_bytes()
        got = {path: bases[path] for path in inputs}
        for _ in range(live):
            for path, blocks in inputs.items():
                more = got[path] < min(live, most[path] + scheme.delta) if most[path] else False
                # A file that exceeds the rest of the budget gets no more replicas: the rest only shrinks.
                if more and sum(blocks.values()) <= left:
                    left -= sum(blocks.values())
                    got[path] += 1
        return got

    def _check_turns(
        self,
        now_s: float,
        inputs: Mapping[str, Mapping[str, int]],
        bases: Mapping[str, int],
        wanted: Mapping[str, int],
    ) -> None:
        """Check that the NameNode updated each block once, in order of its number of added replicas."""
        turns, self._turns = self._turns, []
        seen = f"{now_s}: {turns}, {wanted} replicas wanted"
        hold(sorted(turns) == sorted(block for blocks in inputs.values() for block in blocks), CHECK, seen)
        more = {
            block: wanted[path] - self._replicas.get(path, bases[path])
            for path, blocks in inputs.items()
            for block in blocks
        }
        rises = [more[block] for block in turns]
        hold(rises == sorted(rises), CHECK, f"{seen}, {rises} more")

    def forget(self, block: str) -> None:
        """Drop a block that no longer belongs to a file."""
        self._raised.pop(block, None)

    # -------------------------------------------------------------- questions

    def cause(self, block: str, coming: int = 0) -> str:
        """Return the cause that the block's next copy has in the table of blocks.

        `coming` is the number of copies that are in progress already.
        """
        good = len(self._known.good(block)) + coming
        if block in self._raised:
            cause, base, _ = self._raised[block]
            return cause if good >= base else "repair"
        enough = good >= self._known.target(block)
        return self.scheme.scheme if enough and self.scheme and self._loads is not None else "repair"

    def place(self, block: str, coming: int, free: list[str], load_bytes: Any) -> str | None:
        """Return the node that takes the block's next copy; None if HDFS's placement rule decides."""
        if self._loads is None or block not in self._raised or self.cause(block, coming) == "repair":
            return None
        node = min(free, key=lambda each: (self._rank(each), load_bytes(each), each))
        self._loads[node] = self._loads.get(node, 0.0) + self._raised[block][2]
        return node

    def _rank(self, node: str) -> float:
        assert self._loads is not None and self.scheme is not None
        load, slots = self._loads.get(node, 0.0), self._slots.get(node, 1)
        if self.scheme.scheme == "scarlett":
            return load
        terms = [load**count / factorial(count) for count in range(slots + 1)]  # Erlang B, equation 9
        return round(terms[-1] / sum(terms), 12)

    def check(self) -> None:
        """Compare the raised blocks and the expected loads of nodes with the NameNode's."""
        part = self._part
        hold(part.raised == self._raised, CHECK, f"{part.raised} instead of {self._raised}")
        loads = None if part.choice is None else {n: round(load, 9) for n, load in part.choice.loads.items()}
        mine = None if self._loads is None else {n: round(load, 9) for n, load in self._loads.items()}
        hold(loads == mine, CHECK, f"loads {loads} instead of {mine}")
