"""The block store of a simulation: the NameNode of live runs, called in virtual time.

Empty files and steps without effect are left out. Files written in one step are created only when the
NameNode is needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.namespace import block_number
from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.spec import ClusterSpec
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.scheduler.assignment import aside
from schedbed.scheduler.engines import Values, fast_engine, ready_engine
from schedbed.scheduler.hooks import Keeping
from schedbed.scheduler.simulate.placed_files import PlacedFile, PlacedSplits
from schedbed.scheduler.simulate.plain_files import PlainFiles, WrittenFiles, columns_of_lives
from schedbed.scheduler.simulate.row_frames import put_columns, put_ranges
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.specs import BlockRange, JobSpec, NodeId, Split, id_key
from schedbed.tasks.workloads.planned import InputFile, PlannedJob, build_job, suits

Json = dict[str, Any]
ROWS_AT_ONCE = 10_000
MANY_BLOCKS = 100_000
"""The number of blocks of inputs from which splits are made only when they are needed. All splits take 0.4 kB
a block, but to make a split several times takes longer."""
COMPILED_BLOCKS = 200_000
"""The number of blocks of inputs from which nodes are chosen by the fast engine, if it is ready. Below, to
load the engine would take longer."""
COMPILED_FILES = 50_000
"""The same number for input files, each of which needs a random generator of its own."""


class Storage:
    """The NameNode and attempts' output files, a `cluster.virtual.node_model.Store`.

    Only with `restarts` is there a journal, which takes memory. `alive` and `takes_blocks` tell of a node.
    """

    def __init__(self, cluster: ClusterSpec, seed: int, *, restarts: bool = True) -> None:
        self._cluster = cluster
        self._seed = seed
        self.alive: Callable[[NodeId], bool] = lambda _: True
        self.takes_blocks: Callable[[NodeId], bool] = lambda _: True
        self._restarts = restarts
        self._journal = MemoryJournal(keeps_changes=restarts)
        self._names = self._name_node()
        self._plain = PlainFiles(self._names, seed)
        self._placed: dict[str, PlacedFile] = {}  # By path, for files placed by HDFS's rule.
        self._untold: list[PlacedFile] = []  # Those that the NameNode does not know yet, by number of blocks.
        # Nodes by block, for the splits that the caller has placed.
        self._given: dict[str, tuple[NodeId, ...]] = {}
        self._writing: dict[str, list[tuple[str, list[NodeId]]]] = {}  # Allocated blocks by path.
        self._wrote: dict[str, dict[str, None]] = {}  # By job: attempts that have begun a file.
        self._dropped: dict[str, dict[str, None]] = {}  # By running job: attempts that were given up.
        self._ended: dict[str, None] = {}  # ended jobs

    def _name_node(self) -> NameNode:
        order = [node.node for node in self._cluster.nodes]
        return NameNode(self._journal, seed=self._seed, order=order)

    @property
    def names(self) -> NameNode:
        """Return the NameNode, which has been told about all files."""
        if self._plain:
            self._plain.tell()
            self._untold = []
        return self._names

    def has_orders(self) -> bool:
        """See `NameNode.has_orders`. Fast: files that the NameNode was not told about need no orders."""
        return self._names.has_orders()

    def has_replica_changes(self) -> bool:
        """See `NameNode.has_replica_changes`. Fast as well."""
        return self._names.has_replica_changes()

    # ----------------------------------------------------------------- start

    def load(self, files: Sequence[InputFile]) -> None:
        """Place all input files on the registered nodes at time 0."""
        settings = self._cluster.blocks
        blocks = sum(len(file.blocks) for file in files)
        are_many = blocks >= COMPILED_BLOCKS or len(files) >= COMPILED_FILES
        if not self._restarts and are_many:
            self._plain.place_many(ready_engine())
        by_rule = settings.placement == "hdfs" and not self._restarts
        for is_plain, group in groupby(files, key=lambda file: by_rule and file.preferred is None):
            if is_plain:
                placed = self._plain.add_inputs(
                    [(file.path, file.blocks) for file in group], settings.replication
                )
                self._placed |= {file.path: file for file in placed}
                self._untold += placed
                continue
            for file in group:
                plan = self.names.plan_input(
                    0.0,
                    file.path,
                    file.blocks,
                    settings.replication,
                    placement=settings.placement,
                    preferred=file.preferred,
                    skew=settings.skew,
                )
                self.names.input_uploaded(0.0, file.path, plan)
        if not self._plain:
            self._untold = []
        self._names.take_replica_changes()  # The splits of jobs contain the current locations already.

    def specs(self, jobs: Sequence[PlannedJob | JobSpec]) -> list[JobSpec]:
        """Return the specs with which the jobs will be submitted, including the locations of their splits."""
        placed, self._placed = self._placed, {}
        are_many = sum(len(file.lengths) for file in placed.values()) >= MANY_BLOCKS

        @cache
        def locate(path: str) -> tuple[BlockRange, ...]:
            if path in placed:
                return placed[path].ranges()
            return tuple(
                BlockRange(**{**block, "nodes": tuple(block["nodes"])}) for block in self.names.locate(path)
            )

        def build(job: PlannedJob) -> JobSpec:
            file = placed.get(job.input or "") if are_many else None
            if file is None or not suits(job, file.lengths):
                return build_job(job, locate)
            return build_job(job, locate, splits=PlacedSplits(file))

        specs = [job if isinstance(job, JobSpec) else build(job) for job in jobs]
        for job, spec in zip(jobs, specs, strict=True):
            if isinstance(job, JobSpec):
                replicas = {s.block: tuple(dict.fromkeys(s.hosts)) for s in spec.splits if s.block}
                self._given.update(replicas)
        return specs

    # ----------------------------------------------------------------- Store

    def holders(self, block: str) -> Sequence[NodeId]:
        """Implement `Store.holders`: return the live nodes that hold a replica of the block."""
        given = self._given.get(block)
        if given is not None:
            return [node for node in given if self.alive(node)]
        if self._untold:  # No node was lost so far, since the NameNode would know the files then.
            number = block_number(block)
            file = self._untold[bisect_right(self._untold, number, key=lambda file: file.first) - 1]
            if file.first <= number < file.first + len(file.lengths):
                return file.nodes_of(number - file.first)
        return self.names.holders(block)

    def replicas_of(self, split: Split) -> Sequence[NodeId]:
        """Return a split's nodes at the run's start, live or not, as declared or else `split.hosts`."""
        return self._given.get(split.block or "", split.hosts)

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        """Implement `Store.allocate`: no nodes if there is no room or the attempt was discarded."""
        _, _, job, _, attempt = path.split("/")
        if job in self._ended or attempt in self._dropped.get(job, ()):
            return []
        try:
            answer = self.names.allocate(now_s, path, node, replication, length)
        except BlockStoreError:
            return []
        self._writing.setdefault(path, []).append((answer["block"], answer["nodes"]))
        self._wrote.setdefault(job, {})[attempt] = None
        return answer["nodes"]

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        """Implement `Store.written`. A deleted file stays deleted."""
        blocks = self._writing.pop(path, [])
        if len(blocks) < len(lengths):
            return
        stored = [
            {"block": block, "length": length, "nodes": [n for n in nodes if self.takes_blocks(n)]}
            for (block, nodes), length in zip(blocks, lengths, strict=True)
        ]
        try:
            if stored:
                self.names.complete(now_s, path, stored)
        except BlockStoreError:
            return

    def write_outputs(
        self,
        made_s: Sequence[float],
        writers: Sequence[NodeId],
        attempts: Sequence[tuple[str, str, int]],
        counts: Values,
        lengths: Values,
    ) -> None:
        """Write committed outputs in one step, instead of `allocate`, `written` and `commit`. Raises NoNodes.

        `attempts` are (job, attempt, task's index), and `counts` the blocks of each; `lengths` are those of
        all.
        """
        self._plain.place_many(fast_engine())
        paths = [f"/out/{job}/part-{index:05d}" for job, _, index in attempts]
        placed_as = [aside(job, name) for job, name, _ in attempts]
        outputs = WrittenFiles(made_s, paths, placed_as, writers, counts, lengths)
        self._plain.add_outputs(outputs, self._cluster.blocks.replication)

    # ----------------------------------------------------- orders of the JobTracker

    def commit(self, now_s: float, job: str, attempt: str, index: int) -> str:
        """Move an output to its job's, as part `index`. Return the error, or "", also without a file."""
        if attempt not in self._wrote.get(job, ()):
            return ""
        try:
            self.names.rename(now_s, aside(job, attempt), f"/out/{job}/part-{index:05d}")
        except BlockStoreError as error:
            return str(error)
        return ""

    def discard(self, now_s: float, job: str, attempt: str) -> None:
        """Delete the uncommitted output file of an attempt whose output is not needed."""
        self._dropped.setdefault(job, {})[attempt] = None
        if attempt in self._wrote.get(job, ()):
            self._writing.pop(aside(job, attempt), None)
            self.names.delete(now_s, aside(job, attempt))

    def job_ended(self, now_s: float, job: str) -> None:
        """Delete all uncommitted output files of the job's attempts."""
        self._ended[job] = None
        self._dropped.pop(job, None)
        wrote = self._wrote.pop(job, None)
        if wrote is not None:
            for attempt in wrote:
                self._writing.pop(aside(job, attempt), None)
            self.names.delete(now_s, aside(job), True)

    # ----------------------------------------------------------------- nodes

    def register(self, now_s: float, node: NodeId, rack: str, blocks: Sequence[Mapping[str, Any]]) -> None:
        self.names.register(now_s, node, rack, "", [dict(block) for block in blocks])

    def blocks_on(self, node: NodeId) -> list[Json]:
        """Return the blocks on the node as a block report."""
        return self.names.blocks_on(node)

    def restart(self, now_s: float) -> None:
        """Restart the NameNode from its journal. All nodes have to register again."""
        self._names = self._name_node()
        self._plain = PlainFiles(self._names, self._seed)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return rows of the blocks table that were not returned before, at most `ROWS_AT_ONCE`, or an empty list."""
        return self._journal.take_ended(ROWS_AT_ONCE)

    def put_living(self, rows: Any) -> None:
        """Write the rows of all remaining replicas."""
        if not self._journal.has_living():
            put_ranges(rows, "blocks", self._plain.replicas())
            return
        files = list(self.names.files())
        for data in columns_of_lives(self._journal.take_living(), files):
            put_columns(rows, "blocks", data)


class PlacedInputs(NamedTuple):
    """A block store with inputs, and all jobs with their splits' places, by submit time.

    `tables` is what a fast engine shares among runs (`Engine.shared_tables`).
    """

    storage: Storage
    jobs: list[JobSpec]
    tables: Any = None


def place_inputs(setup: Setup) -> PlacedInputs:
    """Place the input files on the nodes. The result does not depend on the policy."""
    restarts = any(fault.kind == "restart_namenode" for fault in setup.faults)
    storage = Storage(setup.cluster, setup.seed, restarts=restarts)
    for node in setup.cluster.nodes:
        storage.register(0.0, node.node, node.rack, ())
    storage.load(setup.files)
    specs = storage.specs(setup.jobs)
    return PlacedInputs(storage, sorted(specs, key=lambda job: (job.submit_s, *id_key(job.job))))


# Replicas of blocks that simulated maps keep on their node after they have fetched them.
#
# Mirrors `cluster.agent.replica_keeper`, but no bytes are moved.

Keep = Callable[[float, str, str, int], None]
"""A function that adds a replica: of the time, the block, the node, and the number of bytes that a map read there."""


class Copies:
    """The running maps that will keep the block they fetch as a replica. The replica is added when the map succeeds."""

    def __init__(self, keeping: Keeping, seed: int, storage: Storage, keep: Keep) -> None:
        self._keeping = keeping
        self._seed = seed
        self._storage = storage
        self._keep = keep
        # By attempt: the block, and the number of its bytes that the attempt reads.
        self._fetching: dict[str, tuple[str, int]] = {}

    def launched(self, node: str, plan: AttemptPlan) -> None:
        """Note an attempt that will keep its block, if the settings and the NameNode choose it."""
        if not plan.blocks or not self._keeping.asks(self._seed, plan.attempt):
            return
        names, (block, read_bytes) = self._storage.names, plan.blocks[0]
        fetches = node not in names.holders(block)
        if fetches and names.keeps(node, block, self._keeping.budget)["keep"]:
            self._fetching[plan.attempt] = (block, read_bytes)

    def ended(self, now_s: float, node: str, report: AttemptReport) -> None:
        """Add the replica on the node if the ended attempt has kept its block and succeeded."""
        block, read_bytes = self._fetching.pop(report.attempt, ("", 0))
        if block and report.state == "succeeded":
            self._keep(now_s, block, node, read_bytes)
