"""All live runs of one command on one Ray cluster: every policy in every repeat, each on newly started nodes."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import fastparquet  # noqa: F401 - early: during a run the import costs CPU, and Ctrl-C could interrupt it

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.checksum_chain import JournalDamaged
from schedbed.cluster.conditions import by_nature, foreground_slowdowns
from schedbed.cluster.machines.make import KINDS, check_machines, machines_ready
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.run_config import RunConfig, hold_down
from schedbed.cluster.wire.certificates import make_certificates
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.deploy.display.picture import make_display
from schedbed.deploy.display.plain_terminal import plain
from schedbed.deploy.doctor.doctor import settled
from schedbed.deploy.failures import RunFailed, one_line, port_told
from schedbed.deploy.live.fault_injector import FaultInjector
from schedbed.deploy.live.hand_controls import HandControls
from schedbed.deploy.live.hosts import check_links, host_loads, racks_by_host
from schedbed.deploy.live.job_outputs import has_own_check, outputs_folder
from schedbed.deploy.live.live_session import OnStatus, Session
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.options import IN_CLEAR, RunOptions, no_interrupts, run_order
from schedbed.deploy.results.record_check import seal, shortened
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.security.listeners import Listener, listeners_of
from schedbed.deploy.security.strange_calls import check_listeners, check_ray, ports_of, without_guarded_ray
from schedbed.deploy.workspace import scratch, token_file
from schedbed.scheduler.history import History
from schedbed.scheduler.profiles import frozen_store
from schedbed.tasks.own.child import how_code_runs
from schedbed.tasks.specs import NodeId

if TYPE_CHECKING:
    from schedbed.deploy.watch.page_server import LivePage
    from schedbed.deploy.watch.run_meter import RunMeter


class LiveRuns:
    """All live runs of one command on one Ray cluster. Implements the protocol `whole_run.Runs`."""

    PART_EVERY_S = 3.0  # Interval of part files of the tables.
    SUBMITS: ClassVar[bool] = False

    def __init__(self, scenario: ResolvedScenario, options: RunOptions) -> None:
        check_machines(options.machines)
        if options.check and KINDS[options.machines]().run_apart is None:
            for job in filter(has_own_check, scenario.jobs):
                how_code_runs(f"{job.job} {job.app}: its check", "--no-check leaves it out")
        self._scenario = settled(scenario, options.address)
        self._options = options
        self._tls = make_certificates() if options.tls else None
        self._before: frozenset[Listener] = frozenset()  # Listeners from before the run.
        self._meter: RunMeter | None = None
        self._watch: LivePage | None = None
        self.doors: dict[str, str] = {}  # Address and token file of each server, by name.

    def run_all(self, folder: Path, record: RunFile, watch: LivePage | None = None) -> None:
        """Run every policy in every repeat, also after failed ones, with rows in `folder` and a note in `record`."""
        self._folder, self._record, self._watch = folder, record, watch
        self._before = frozenset(listeners_of(os.getpid()))
        order = run_order(len(self._scenario.policies), self._scenario.repeats)
        nodes = f"{len(self._scenario.cluster.nodes)} nodes"
        with ExitStack() as stack:
            display = stack.enter_context(make_display(live=self._options.live))
            stack.enter_context(machines_ready(self._options.machines))
            base = stack.enter_context(scratch())
            stack.enter_context(native_lines_in(folder / "ray.log"))
            self._serve_metrics(stack)
            if watch is not None:
                self._tell("page", watch.url)
            display.stage(f"starting Ray and the masters of {nodes}")
            over_tcp = Endpoint(ports=self._options.ports, tls=self._tls)
            ray = RayCluster(self._scenario.cluster.nodes, base, self._options.address, over_tcp=over_tcp)
            cluster = stack.enter_context(ray)
            check_ray(cluster.gcs)
            if self._options.is_in_clear:
                print(IN_CLEAR, file=sys.stderr)
            self._settle_on_hosts(cluster)
            for number, (repeat, index) in enumerate(order):
                choice = self._scenario.policies[index]
                about = {
                    "policy": choice.spec,
                    "repeat": repeat,
                    "repeats": self._scenario.repeats,
                    "of_policies": [number + 1, len(order)],
                    "hosts": {node: host.name for node, host in cluster.places.items()},
                }
                config = self._config(choice, base / f"run{number}")
                if watch is not None:
                    watch.begin(config.cluster.nodes, about)
                display.stage(f"{choice.spec}: starting {nodes} and loading their input")
                self._run_one(cluster, config, repeat, lambda status, a=about: display.update(status | a))

    def _settle_on_hosts(self, cluster: RayCluster) -> None:
        """Adapt the scenario to its hosts, and store them. Raises BadInput for links or disks across hosts."""
        spec = racks_by_host(self._scenario.cluster, cluster.places)
        check_links(spec, cluster.places)
        self._scenario = replace(self._scenario, cluster=spec)
        self._record.scenario = self._scenario.to_json()
        if self._options.address is not None:
            self._record.hosts = {name: host.facts(cluster.places) for name, host in cluster.hosts.items()}
        self._record.save(self._folder)

    def _config(self, choice: PolicyChoice, work: Path) -> RunConfig:
        return RunConfig(
            run_id=f"{work.parent.name}-{work.name}",
            policy=choice.spec,
            given=choice.given,
            scale=self._scenario.scale,
            seed=self._scenario.seed,
            epoch_s=0.0,
            token=secrets.token_hex(32),
            work=work,
            cluster=self._scenario.cluster,
            speculation=self._scenario.speculation,
            sizes=self._scenario.sizes,
            framework=asdict(self._scenario.framework),
            profiles=frozen_store(
                self._scenario.profiles.store, work.with_name(f"{work.name}-profiles.sqlite")
            ),
            machines=self._options.machines,
            ports=self._options.ports,
            tls=self._tls,
        )

    def _run_one(self, cluster: RayCluster, config: RunConfig, repeat: int, on_status: Any) -> None:
        history = History(self._folder, config.policy, repeat, every_s=self.PART_EVERY_S)
        followers = [each for each in (self._meter, self._watch) if each is not None]
        session = Session(cluster, self._scenario, config, history, followers)
        record = RunRecord(policy=config.policy, repeat=repeat, epoch_s=0.0)
        self._record.runs.append(record)
        if self._meter is not None:
            about = {"policy": config.policy, "repeat": str(repeat), "machines": config.machines}
            self._meter.begin(config.cluster.nodes, **about)
        try:
            record.epoch_s = session.start(lambda: self._check_listeners(cluster, session)).epoch_s
            self._record.save(self._folder)  # So that commands can read the run's rows while it goes on.
            with self._webhdfs(cluster, session, config.token):
                self._follow(cluster, session, on_status)
            self._judge(record, session)
            if self._options.keep_outputs:
                session.save_outputs(outputs_folder(self._folder, config.policy, repeat))
        except (RunFailed, MasterGone, BlockStoreError, JournalDamaged) as error:
            record.state, record.note = "failed", str(error)
        except Exception as error:
            record.state, record.note = "failed", one_line(error)
            raise
        except BaseException as error:
            record.state, record.note = "interrupted", type(error).__name__
            raise
        finally:
            with no_interrupts():
                session.stop()
                shutil.rmtree(config.work / "nodes", ignore_errors=True)  # The blocks may be many GB.
                history.close()
                record.duration_s = session.duration_s
                record.host_samples = session.watch.samples
                if self._options.address is not None:
                    record.hosts = host_loads(cluster.hosts.values(), session.watch.samples, session.clock)
                record.limits, record.counted = session.limits, session.counted
                record.findings = session.findings
                seal(self._folder, record)
                self._record.save(self._folder)
                if self._watch is not None:
                    self._watch.finish(record.state, record.note)

    def _serve_metrics(self, stack: ExitStack) -> None:
        """Serve metrics for Prometheus until `stack` closes, if requested. Raises RunFailed for a taken port."""
        port = self._options.metrics
        if port is None:
            return
        from schedbed.deploy.watch.run_meter import RunMeter, serve_metrics

        self._meter, token = RunMeter(), secrets.token_hex(32)
        path = stack.enter_context(token_file(self._folder / "metrics-token", token))
        with port_told("--metrics", port):
            server = stack.enter_context(serve_metrics(self._meter, token, port))
        self._tell("metrics", f"{server.url}/metrics, bearer token in {path}")

    @contextmanager
    def _webhdfs(self, cluster: RayCluster, session: Session, token: str) -> Iterator[None]:
        """Serve the block store by WebHDFS, if requested; `token` goes to two files, one for Hadoop programs."""
        port = self._options.webhdfs
        if port is None:
            yield
            return
        from schedbed.cluster.webhdfs.rest_call import USER, credentials

        url = session.serve_web(port)
        for_hadoop = credentials(token, USER, urlsplit(url).netloc)
        with (
            token_file(self._folder / "webhdfs-token", token) as path,
            token_file(self._folder / "webhdfs-credentials", for_hadoop),
        ):
            self._tell("WebHDFS", f"{url}, delegation token in {path}")
            self._check_listeners(cluster, session)
            yield

    def _tell(self, name: str, where: str) -> None:
        self.doors[name] = where
        print(f"{name}: {where}", flush=True)

    def _follow(self, cluster: RayCluster, session: Session, on_status: OnStatus) -> None:
        """Follow the run until all jobs have ended. A subclass overrides this for clusters that stay up."""
        faults = self._faults(cluster)
        if self._watch is not None:
            self._watch.controls = HandControls(self._scenario, session, faults)
        session.follow(faults, on_status)

    def _check_listeners(self, cluster: RayCluster, session: Session) -> None:
        """Raise RunFailed if a process of the run listens on an unexpected address or port."""
        found = set(without_guarded_ray(listeners_of(os.getpid(), ports_of(session.agents)))) - self._before
        asked_for: list[str] = []
        if self._options.address is not None:
            found.update(*cluster.listeners())
            asked_for = [record.host.address for record in cluster.hosts.values()]
        check_listeners(sorted(found), asked_for)

    def _faults(self, cluster: RayCluster) -> FaultInjector:
        nodes = self._scenario.cluster.nodes
        names = [node.node for node in nodes]
        fault_calls = RayFaultCalls(cluster)
        return FaultInjector(
            self._scenario.faults, names, fault_calls, by_nature(nodes), foreground_slowdowns(nodes)
        )

    def _judge(self, record: RunRecord, session: Session) -> None:
        """Set the run's state: `succeeded` if all jobs and outputs are right, or `failed` with a note."""
        wrong = session.unsuccessful()
        if self._options.check:
            wrong += session.check_outputs()
        record.state = "failed" if wrong else "succeeded"
        record.note = shortened(wrong)


# Fault injection by calls to the Ray actors of a live cluster.

TRIES = 20
PATIENCE_S = 3.0  # After this time the call is repeated, which does no harm.


class RayFaultCalls:
    """Injects single faults through Ray: `instant_faults.FaultCalls`."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._failures: dict[tuple[NodeId, str], int] = {}  # Failures in a row, by node and kind.

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Apply a fault at a node. Raises MasterGone if it is down, or the fault may succeed later.

        For example, a busy host may not pause a container at once. After TRIES failures in a row, RunFailed
        is raised.
        """
        call = self._cluster.trackers[node].fault(kind, dict(arguments))
        try:
            hit = self._cluster.wait([call], timeout_s=PATIENCE_S)[0]
        except MasterGone:
            raise
        except Exception as error:
            self._failures[node, kind] = self._failures.get((node, kind), 0) + 1
            why = f"faults: {kind} on {node}: {error}"
            raise (MasterGone(why) if self._failures[node, kind] < TRIES else RunFailed(why)) from error
        self._failures.pop((node, kind), None)
        return hit

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Implement `FaultCalls.pick_replica` by the NameNode."""
        return asyncio.run(self._cluster.masters.name_node.pick_replica(up, target, nodes, luck))

    def kill_tracker(self, node: NodeId) -> None:
        """Kill a TaskTracker. The next `RayCluster.addresses` starts a new one."""
        self._cluster.wait([self._cluster.trackers[node].kill()], timeout_s=PATIENCE_S)

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Implement `FaultCalls.kill_host`. Ray restarts the process."""
        return self._cluster.kill_host(node)

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `name`, which is `jobtracker` or `namenode`. Ray restarts the process."""
        self._cluster.kill_master(name)

    def hold(self, name: str, for_s: float) -> None:
        """Implement `FaultCalls.hold`."""
        hold_down(self._cluster.control, name, time.time() + self._cluster.real_s(for_s))


# Redirection of the lines that C++ libraries, such as Ray's, write directly to file descriptor 2.

STDERR = 2


@contextmanager
def native_lines_in(path: Path) -> Iterator[None]:
    """Redirect what libraries write to file descriptor 2 to a file; `sys.stderr` still writes to the
    terminal.

    A note tells the number of lines, or the empty file goes. Nothing is redirected if `sys.stderr` does not
    use descriptor 2, as in a notebook.
    """
    if not _is_plain():
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(log, STDERR)
    os.close(log)
    before = sys.stderr
    sys.stderr = plain(os.fdopen(terminal, "w", buffering=1, encoding=before.encoding, errors=before.errors))
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STDERR)
        sys.stderr.close()
        sys.stderr = before
        _tell(path)


def _is_plain() -> bool:
    try:
        return sys.stderr.fileno() == STDERR
    except (AttributeError, OSError, ValueError):
        return False


def _tell(path: Path) -> None:
    lines = path.read_bytes().count(b"\n")
    if lines:
        print(f"note: Ray wrote {lines} lines about itself, kept in {path}", file=sys.stderr)
    else:
        path.unlink()
