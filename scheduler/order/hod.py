"""The order axis HOD (Hadoop On Demand): divides the nodes permanently into private clusters, each with FIFO
order.

Source: the thesis xu2015, section 3.1.2.2 and HOD's own guide: the administrator sets the size of each
private cluster, all clusters share one file system, and a node of one cluster never runs a job of another
cluster, even when the node is idle.

Decisions where the thesis defines no assignment: `clusters` gives the number of nodes of each user or queue,
which are assigned in that order, and all other users share the remaining nodes as one cluster. Without
`clusters` the nodes are assigned in turn to `parts` equal clusters, and each new user is assigned the next
cluster. A job that no live node of its cluster can run (all nodes are lost, too small, or avoided after
failures) is a guest on other clusters: nodes without ready jobs of their own cluster run it, since HOD would
allocate another cluster for the job's user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedbed.scheduler.hooks import QUIET, Limits
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import at_least_one, by_name, choice, count
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import NodeId, TaskKind

REST = "the rest"


class PrivateCluster:
    """The nodes and ready jobs of one private cluster.

    `most`: largest number of nodes, or None if the cluster has no limit.
    """

    __slots__ = ("largest_bytes", "largest_vcores", "most", "name", "nodes", "ready", "suspects")

    def __init__(self, name: str, most: int | None) -> None:
        self.name = name
        self.most = most
        self.nodes: list[NodeId] = []
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.suspects: dict[str, None] = {}  # jobs with a failure, which may avoid nodes
        self.largest_bytes = dict.fromkeys(TaskKind, 0)  # The largest demand of all tasks submitted so far.
        self.largest_vcores = dict.fromkeys(TaskKind, 0)


class Hod:
    """The order axis of a composed policy: private clusters of nodes, each with FIFO order.

    `clusters`: a dictionary from user or queue to a number of nodes; without it there are `parts` equal
    clusters. `cluster_by`: a cluster for each user, or for each queue.
    """

    quiet = QUIET

    def __init__(
        self, *, clusters: Mapping[str, int] | None = None, parts: int = 2, cluster_by: str = "user"
    ) -> None:
        self._by_user = cluster_by == "user"
        self._limits = Limits()
        self._cluster_of: dict[str, PrivateCluster] = {}  # by user or queue
        self._cluster_at: dict[NodeId, PrivateCluster] = {}
        self._rest: PrivateCluster | None = None
        if clusters:
            for name, nodes in clusters.items():
                self._cluster_of[name] = PrivateCluster(name, nodes)
            self._rest = PrivateCluster(REST, None)
            self._clusters = [*self._cluster_of.values(), self._rest]
        else:
            self._clusters = [PrivateCluster(f"part {number + 1}", None) for number in range(parts)]

    def set_limits(self, limits: Limits) -> None:
        """Set the core's limits, by which nodes that can run a task are found."""
        self._limits = limits

    # Nodes of the clusters

    def _deal(self, view: View) -> None:
        """Assign nodes that have no private cluster yet to private clusters, in the order of the nodes' names."""
        new = [name for name in view.nodes if name not in self._cluster_at]
        for name in sorted(new, key=lambda name: (len(name), name)):
            short = [each for each in self._clusters if each.most is not None and len(each.nodes) < each.most]
            open_ended = [each for each in self._clusters if each.most is None]
            cluster = short[0] if short else min(open_ended, key=lambda each: len(each.nodes))
            cluster.nodes.append(name)
            self._cluster_at[name] = cluster

    def _owner(self, view: View, node: NodeView) -> PrivateCluster:
        """Return the node's private cluster, after assigning new nodes."""
        if len(view.nodes) > len(self._cluster_at):
            self._deal(view)
        return self._cluster_at[node.node]

    def cluster_of(self, job: JobView) -> PrivateCluster:
        """Return the cluster of the job's user or queue: a new one gets the next, or the rest with `clusters`."""
        name = job.user if self._by_user else job.queue
        cluster = self._cluster_of.get(name)
        if cluster is None:
            turn = len(self._cluster_of) % len(self._clusters)
            cluster = self._cluster_of[name] = self._rest or self._clusters[turn]
        return cluster

    # Waiting jobs

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: assign new nodes, and note the largest demand in the job's cluster."""
        self._deal(view)
        cluster = self.cluster_of(job)
        for kind in TaskKind:
            demand = job.stage(kind).demand
            cluster.largest_bytes[kind] = max(cluster.largest_bytes[kind], demand.memory_bytes)
            cluster.largest_vcores[kind] = max(cluster.largest_vcores[kind], demand.vcores)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to its cluster's ready jobs, or remove it if no task is ready."""
        ready = self.cluster_of(job).ready[kind]
        if job.stage(kind).ready:
            if job not in ready:
                ready.put(job, fifo_key(job))
        else:
            ready.drop(job)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: after a failure, the job may avoid nodes of its cluster."""
        job = attempt.task.job
        if attempt.state == "failed" and job.active:
            self.cluster_of(job).suspects[job.job] = None

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        self.cluster_of(job).suspects.pop(job.job, None)

    def group_of(self, view: View, node: NodeView) -> str:
        """Implement `Order.group_of`: a private cluster's nodes are offered the same jobs."""
        return self._owner(view, node).name

    # Order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterator[JobView]:
        """Implement `Order.jobs`: the cluster's own jobs, then guests that no live node of their own can run."""
        own = self._owner(view, node)
        yield from own.ready[kind]
        for cluster in self._clusters:
            if cluster is own or not cluster.ready[kind]:
                continue
            guests = self._guests(view, cluster, kind)
            yield from guests
            first = cluster.ready[kind].first() if cluster.ready[kind] else None
            if first is not None and first not in guests:
                why = f"private cluster {cluster.name}; the node belongs to {own.name}"
                view.skip(node, first, kind, why)

    def _guests(self, view: View, cluster: PrivateCluster, kind: TaskKind) -> list[JobView]:
        """Return the ready jobs of the private cluster `cluster` that none of its live nodes can run."""
        roomy = any(
            self._could_hold(
                view.nodes[name], kind, cluster.largest_bytes[kind], cluster.largest_vcores[kind]
            )
            for name in cluster.nodes
        )
        if not roomy:
            return [job for job in cluster.ready[kind] if not self._has_node(view, cluster, job, kind)]
        if not cluster.suspects:
            return []
        suspects = [view.jobs[name] for name in cluster.suspects]
        return [
            job
            for job in sorted(suspects, key=fifo_key)
            if job in cluster.ready[kind] and not self._has_node(view, cluster, job, kind)
        ]

    def _has_node(self, view: View, cluster: PrivateCluster, job: JobView, kind: TaskKind) -> bool:
        demand = job.stage(kind).demand
        nodes = [view.nodes[name] for name in cluster.nodes]
        return any(
            self._could_hold(node, kind, demand.memory_bytes, demand.vcores)
            and not view.avoids(job, node, kind)
            for node in nodes
        )

    def _could_hold(self, node: NodeView, kind: TaskKind, memory_bytes: int, vcores: int) -> bool:
        """Return whether such a task could run on the node if it were idle."""
        limits, spec = self._limits, node.spec
        return (
            node.alive
            and (spec.slots(kind) > 0 or not limits.slots)
            and (memory_bytes <= spec.memory_bytes or not limits.memory)
            and (vcores <= spec.cores or not limits.vcores)
        )

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the private cluster, and whether the job is a guest, for the reason of a launch."""
        own, cluster = self._cluster_at[node.node], self.cluster_of(job)
        if own is cluster:
            return f"private cluster {own.name}, {len(own.nodes)} nodes"
        return f"guest in private cluster {own.name}: no node of {cluster.name} can run it now"


def _nodes(nodes: int | None = None) -> int:
    if nodes is None:
        raise ValueError("nodes is missing: how many nodes the private cluster has")
    return nodes


def _check(order: Hod, locality: Locality, admission: Admission) -> None:
    order.set_limits(admission.limits)


AXIS = Axis(
    axis="order",
    name="hod",
    factory=Hod,
    summary="each user has a fixed private cluster of nodes with FIFO order",
    paper="xu2015 3.1.2.2; Hadoop On Demand",
    parameters=(
        by_name(
            "clusters",
            "cluster",
            "size of private clusters by user or queue, such as {ana: {nodes: 2}}; all others share "
            "one cluster of the remaining nodes",
            "{ana: {nodes: 2}}",
            {"nodes": at_least_one},
            _nodes,
        ),
        count(
            "parts",
            "2",
            "number of equal private clusters if `clusters` is empty; users are assigned to them in turn",
            least=1,
        ),
        choice("cluster_by", ("user", "queue"), "whether private clusters belong to users or to queues"),
    ),
    check=_check,
    rank=30,
)
POLICY = AXIS.named(
    summary="Each user has a fixed private cluster with FIFO order; idle nodes do not run jobs of "
    "other users.",
    rank=52,
)
