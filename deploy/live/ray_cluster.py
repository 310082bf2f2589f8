"""The Ray cluster of live runs: starts or joins Ray, and creates and ends the actors."""

from __future__ import annotations

import logging
import os
import platform
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from schedbed.deploy.live.ray_join import CALL_S, join_ray, raylet, wait_for  # sets Ray's environment: first

# isort: split

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import ray.job_config
from ray._private import node as ray_nodes
from ray._private import services as ray_services
from ray._private import utils as ray_utils
from ray._private import worker as ray_workers
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial, relative_speeds
from schedbed.cluster.host_clock import ROUND_TRIPS, ClockReading, Exchange, least_round_trip
from schedbed.cluster.machines.make import KINDS
from schedbed.cluster.masters import MasterGone, NameNodeDoor, Send, make_stub
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.client_end import ClientEnd
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.actors.jobtracker_actor import JobTrackerActor
from schedbed.deploy.live.actors.namenode_actor import NameNodeActor
from schedbed.deploy.live.actors.tasktracker_actor import NodeHandle, TaskTrackerActor
from schedbed.deploy.live.driver_door import DriverDoor
from schedbed.deploy.live.hosts import Host, HostKeeper, HostRecord, deal_out, hosts_of
from schedbed.deploy.live.lean_ray import check_limits, check_ray_runs, lean, sigterm_stays
from schedbed.deploy.live.worker_imports import use_own_path
from schedbed.deploy.options import interrupts_later, no_interrupts
from schedbed.deploy.security.listeners import Listener

log = logging.getLogger(__name__)

LOOK_S = 3.0  # Time limit for actors to answer a routine request of the driver.
START_S = 120.0
OBJECT_STORE_BYTES = 80 << 20
BEGIN_S = END_S = 30.0
NODE_S = 6.0  # Additional start time per node, since many processes share few cores.


async def find_master(namespace: str, name: str) -> Endpoint:
    """Return a master's current endpoint. Raises MasterGone if its actor is down."""
    try:
        check_ray_runs(ray_workers)  # Without its GCS, Ray would end this process after a minute.
        return await cast("Any", ray.get_actor(name, namespace=namespace)).endpoint.remote()
    except (RayError, RunFailed, ValueError) as error:
        raise MasterGone(f"{name}: {str(error).splitlines()[0]}") from None


class RayCluster:
    """A Ray cluster for the nodes of one emulated cluster, as a context manager. Masters are on this host.

    Without `address` Ray starts here; otherwise the cluster there (host:port of the GCS, or `auto`) is
    joined, and nodes are spread over its hosts. `places` never changes, so a lost host means lost nodes.
    `over_tcp` has ports and TLS of masters on a network.
    """

    def __init__(
        self,
        nodes: Iterable[NodeSpec],
        base: Path,
        address: str | None = None,
        *,
        over_tcp: Endpoint = Endpoint(),  # noqa: B008 - it does not change
    ) -> None:
        self.control = base / "control"
        self.control.mkdir(parents=True)
        self.namespace = base.name
        self._nodes = list(nodes)
        self._temporary = base / "ray"
        self._address = address
        self._over_tcp = over_tcp
        self._config: RunConfig | None = None
        self.hosts: dict[str, HostRecord] = {}
        self.places: dict[str, Host] = {}
        self.trackers: dict[str, NodeHandle] = {}
        self.masters = DriverMasters(partial(find_master, self.namespace), timeout_s=CALL_S)
        self.check_ray_runs = partial(check_ray_runs, ray_workers)
        self._masters: dict[str, Any] = {}
        self._holders: dict[str, Any] = {}  # Actors of TaskTrackers by host.
        self._keepers: dict[str, Any] = {}

    def __enter__(self) -> RayCluster:
        try:
            # Ray does not track processes that it has just started: after an interrupt they would stay alive.
            with interrupts_later(), sigterm_stays(ray_utils):
                if self._address is None:
                    self._start_ray()
                else:
                    join_ray(self._address, self.namespace)
            self._find_hosts()
            self._start_actors()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        with no_interrupts():
            self._answers({name: keeper.close.remote() for name, keeper in self._keepers.items()}, END_S)
            ray.shutdown()
            self.masters.close()

    def _start_ray(self) -> None:
        check_limits(len(self._nodes), OBJECT_STORE_BYTES)
        for last in (False, True):  # On a busy host, Ray's processes may miss Ray's limit of 30 s.
            job_config = use_own_path(ray.job_config.JobConfig())
            try:
                with lean(ray_nodes, ray_services, ray_workers, raylet, job_config):
                    self._init_ray(job_config)
                break
            except Exception as error:
                ray.shutdown()
                if last:
                    raise RunFailed(f"Ray did not start: {str(error).splitlines()[0]}") from error

    def _init_ray(self, job_config: Any) -> None:
        ray.init(
            address="local",
            num_cpus=max(2, os.cpu_count() or 2),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace=self.namespace,
            object_store_memory=OBJECT_STORE_BYTES,
            job_config=job_config,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(self._temporary),
        )

    def _find_hosts(self) -> None:
        own_id = ray.get_runtime_context().get_node_id()
        self.gcs = str(ray.get_runtime_context().gcs_address)
        if self._address is None:
            hosts = (Host(name=platform.node(), ray_id=own_id, drives=True),)
        else:
            hosts = hosts_of(ray.nodes(), own_id)
        self.places = deal_out(self._nodes, hosts)
        self.hosts = {host.name: HostRecord(host) for host in hosts}

    def _start_actors(self) -> None:
        own = next(each.host for each in self.hosts.values() if each.host.drives)
        masters = SocketMasters(partial(find_master, self.namespace))
        options = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 100, "namespace": self.namespace}

        def start(actor: type, host: Host, *args: Any, more: Any = None, **named: Any) -> Any:
            there = NodeAffinitySchedulingStrategy(host.ray_id, soft=False)
            made = ray.remote(actor).options(**options | (more or {}), scheduling_strategy=there)
            return made.remote(*args, **named)

        for name, actor in (("jobtracker", JobTrackerActor), ("namenode", NameNodeActor)):
            more = [masters] if actor is JobTrackerActor else []
            place = self._place(own, name)
            self._masters[name] = start(actor, own, str(self.control), place, *more, more={"name": name})
        for host in dict.fromkeys(self.places.values()):
            nodes, far = self._nodes_on(host.name), not host.drives
            actor = self._holders[host.name] = start(TaskTrackerActor, host, nodes, masters, far=far)
            self.trackers |= {node: NodeHandle(actor, node) for node in nodes}
        for host in {host.name: host for host in self.places.values() if not host.drives}.values():
            self._keepers[host.name] = start(HostKeeper, host, more={"max_restarts": 0})
        actors = (*self._masters.values(), *self._holders.values(), *self._keepers.values())
        try:
            self.wait([actor.ready.remote() for actor in actors], START_S + NODE_S * len(actors))
        except MasterGone as error:
            raise RunFailed(f"{len(actors)} actors did not start ({error}) Fewer nodes?") from None
        self.wait(
            [master.endpoint.remote() for master in self._masters.values()]
        )  # Raises if no port is free.
        for name, keeper in self._keepers.items():
            clock = clock_ahead(partial(self._asked, keeper.time_of_day))
            self.hosts[name].take(self.wait([keeper.describe.remote()])[0], clock)
        trials = {name: partial(self._asked, keeper.trial_s) for name, keeper in self._keepers.items()}
        for name, speed in core_speeds(own.name if own in self.places.values() else None, trials).items():
            self.hosts[name].speed = speed

    def _asked(self, method: Any) -> Any:
        return self.wait([method.remote()])[0]

    def _place(self, own: Host, master: str) -> Endpoint:
        """Return a master's endpoint: a Unix socket if all nodes are here, or an address."""
        token = secrets.token_hex(32)
        if self._address is not None:
            return replace(self._over_tcp, host=own.address, token=token)
        return Endpoint.on_one_host(self.control / f"{master}.socket", own.address, token)

    def wait(self, calls: list[Any], timeout_s: float = CALL_S) -> list[Any]:
        """Return results of actors' calls. Raises their exceptions, and MasterGone if one is down."""
        return wait_for(calls, timeout_s)

    def listeners(self) -> list[list[Listener]]:
        """Return the listening sockets of each master, and of each host's TaskTrackers."""
        actors = (*self._masters.values(), *self._holders.values())
        return self.wait([actor.listeners.remote() for actor in actors])

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `name`, which is `jobtracker` or `namenode`. Ray restarts the process."""
        ray.kill(self._masters[name], no_restart=False)

    def kill_host(self, node: str) -> list[str]:
        """Kill the process of a host's TaskTrackers, which Ray restarts. Return its nodes."""
        host = self.places[node].name
        ray.kill(self._holders[host], no_restart=False)
        return self._nodes_on(host)

    def _nodes_on(self, host: str) -> list[str]:
        return [node.node for node in self._nodes if self.places[node.node].name == host]

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> None:
        """Tell every node all URLs and racks, and the start (0 before it).

        Before the start, a node that is down raises RunFailed. Later it is skipped, and told after its
        restart.
        """
        calls = {name: node.introduce(peers, racks, epoch_s) for name, node in self.trackers.items()}
        _ = self._answers(calls, LOOK_S) if epoch_s else self._on_all_hosts(list(calls.values()))

    def _answers(self, calls: Mapping[str, Any], timeout_s: float, *, all_: bool = False) -> dict[str, Any]:
        """Return results by name of the calls that end in time.

        Hosts that did not answer last are awaited only with `all_`: Ray needs half a minute to notice a lost
        one.
        """
        awaited = [call for name, call in calls.items() if all_ or not self._is_silent(name)]
        if awaited:
            ray.wait(awaited, num_returns=len(awaited), timeout=timeout_s)
        ended = ray.wait(list(calls.values()), num_returns=len(calls), timeout=0)[0] if calls else []
        found: dict[str, Any] = {}
        for name, call in calls.items():
            if call in ended:
                try:
                    found[name] = self.wait([call])[0]
                except MasterGone:
                    continue
                except Exception as error:
                    log.warning("%s: %s", name, error)
        return found

    def _is_silent(self, name: str) -> bool:
        place = self.places.get(name)
        record = self.hosts.get(place.name if place is not None else name)
        return record is not None and record.lost_s is not None

    def announce(self, config: RunConfig | None) -> None:
        """Tell masters and hosts of a new run, or of its end (None). Raises RunFailed if a host is silent at
        first.

        The second call for a run, when its start is known, starts the sampling of hosts' load.
        """
        self._config = config
        if config is None:
            RunConfig.clear(self.control)
            return
        if config.epoch_s:
            self._answers({name: k.watch.remote(config.clock()) for name, k in self._keepers.items()}, LOOK_S)
        else:
            config.make_work()
            for record in self.hosts.values():
                record.samples, record.readings, record.lost_s = [], [], None
            send_image(config.machines, self._keepers, self.wait)
            self._on_all_hosts([k.prepare.remote(self._config_on(name)) for name, k in self._keepers.items()])
        config.save(self.control)

    def _config_on(self, host: str) -> RunConfig:
        """Return the run's configuration with the scratch folder, the address and the core speed of the given host."""
        assert self._config is not None
        record = self.hosts[host]
        work = self._config.work if record.folder is None else record.folder / self._config.work.name
        told = {"owner": record.owner, "listen": record.host.address, "host_speed": record.speed}
        return replace(self._config, work=work, **told)

    def real_s(self, emulated_s: float) -> float:
        """Return the real seconds of emulated ones in this run."""
        return emulated_s if self._config is None else self._config.clock().real_s(emulated_s)

    def begin_name_node(self) -> None:
        self.wait([self._masters["namenode"].begin.remote()])

    def serve_web(self, port: int) -> str:
        """Serve WebHDFS on the port until the run ends. Return the URL. Raises OSError if the port is taken."""
        return self.wait([self._masters["namenode"].serve_web.remote(port)])[0]

    def begin_nodes(self) -> list[dict[str, Any]]:
        """Start all nodes. Return each one's name, URL and limits. Raises RunFailed for a lost host.

        All policies must run on the same nodes.
        """
        return self._on_all_hosts([self._begin(name) for name in self.trackers])

    def _on_all_hosts(self, calls: list[Any]) -> list[Any]:
        try:
            return self.wait(calls, START_S + NODE_S * len(calls))
        except MasterGone as error:
            self.look_at_hosts()
            away = [name for name, host in self.hosts.items() if host.lost_s is not None]
            nodes = [node for node, place in self.places.items() if place.name in away]
            why = f"without host {', '.join(away)} there is no {', '.join(nodes)}" if away else str(error)
            raise RunFailed(f"a run needs all its nodes: {why}") from None

    def _begin(self, node: str) -> Any:
        return self.trackers[node].begin(self._config_on(self.places[node].name))

    def addresses(self) -> dict[str, str]:
        """Restart nodes with a dead TaskTracker. Return {node: its agent's URL}."""
        told = self._answers({name: actor.where.remote() for name, actor in self._holders.items()}, LOOK_S)
        found = {node: url for urls in told.values() for node, url in urls.items()}
        if self._config is not None:
            blank = [name for name, url in found.items() if url is None]
            begun = self._answers({name: self._begin(name) for name in blank}, BEGIN_S)
            found |= {name: hello["url"] for name, hello in begun.items()}
        return {name: url for name, url in found.items() if url is not None}

    def look_at_hosts(self, patience_s: float = LOOK_S) -> None:
        """Fetch load samples and clock readings of other hosts; silent ones are marked as lost."""
        if self._config is None:
            return
        calls = {name: k.samples.remote(len(self.hosts[name].samples)) for name, k in self._keepers.items()}
        answers = self._answers(calls, patience_s, all_=True)
        now_s = self._config.clock().now_s() if self._config.epoch_s else 0.0
        clocks = {name: self._holders[name].clock_readings.remote() for name in self._keepers}
        readings = self._answers(clocks, patience_s)
        for name in calls:
            self.hosts[name].hear(answers.get(name), now_s, readings.get(name))

    def end_run(self) -> None:
        """Stop the nodes and masters of the current run. Actors that are down are skipped."""
        self.look_at_hosts(END_S)  # Wait for slow hosts, so that they are cleaned up.
        self.announce(None)
        self._answers({name: node.end() for name, node in self.trackers.items()}, END_S)
        if not self._answers({"jobtracker": self._masters["jobtracker"].end.remote()}, LOOK_S):
            self.kill_master("jobtracker")  # A policy may block it.
        for actors in ({"namenode": self._masters["namenode"]}, self._keepers):
            self._answers({name: actor.end.remote() for name, actor in actors.items()}, END_S)


# The transfer of a machine image, such as a Docker image, from the command's host to other hosts.

Wait = Callable[[list[Any]], Sequence[Any]]


def send_image(machines: str, keepers: Mapping[str, Any], wait: Wait) -> list[str]:
    """Send the machines' image to hosts without it, and return their names. Raises BadInput.

    Each piece follows when all hosts have loaded the last, so that none holds more than a few in memory.
    `wait` returns results of actors' calls.
    """
    image = KINDS[machines]().image
    if image is None or not keepers:
        return []
    answers = wait([keeper.lacks_image.remote(machines) for keeper in keepers.values()])
    lacking = [name for name, lacks in zip(keepers, answers, strict=True) if lacks]
    if lacking:
        print(f"sending the image of {machines} machines to {', '.join(lacking)}", flush=True)
        for piece in image.pieces():
            wait([keepers[name].take_image_piece.remote(machines, piece) for name in lacking])
        wait([keepers[name].end_image.remote() for name in lacking])
    return lacking


# Connections to the two masters, the JobTracker and the NameNode, through sockets.

FindMaster = Callable[[str], Awaitable[Endpoint]]
"""Returns the current endpoint of `jobtracker` or `namenode`. Raises MasterGone. Can be pickled."""


class SocketMasters:
    """An actor's connections to the masters, in one event loop, without time limit. `find` returns an endpoint."""

    def __init__(self, find: FindMaster) -> None:
        self._find = find
        self.to_job_tracker: Send = ClientEnd(DriverDoor, partial(find, "jobtracker")).call
        self.to_name_node: Send = ClientEnd(NameNodeDoor, partial(find, "namenode")).call
        self.job_tracker = make_stub(DriverDoor, self.to_job_tracker)
        self.name_node = make_stub(NameNodeDoor, self.to_name_node)

    def __reduce__(self) -> tuple[type[SocketMasters], tuple[FindMaster]]:
        return SocketMasters, (self._find,)  # Each actor opens new connections.


class DriverMasters:
    """The driver's connections to the masters, for any thread and loop; MasterGone after `timeout_s`."""

    def __init__(self, find: FindMaster, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="masters", daemon=True)
        self._thread.start()
        masters = SocketMasters(find)
        self.to_job_tracker: Send = partial(self._carry, "jobtracker", masters.to_job_tracker)
        self.to_name_node: Send = partial(self._carry, "namenode", masters.to_name_node)
        self.job_tracker = make_stub(DriverDoor, self.to_job_tracker)
        self.name_node = make_stub(NameNodeDoor, self.to_name_node)

    async def _carry(
        self, name: str, send: Send, method: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        async def carried() -> Any:
            return await send(method, args, named)

        call = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(carried(), self._loop))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except TimeoutError:
            raise MasterGone(f"the {name} did not answer within {self._timeout_s} s") from None

    def close(self) -> None:
        """Stop the thread that sends the calls."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


# Measurements of other hosts before a run: the difference of their clocks and the speed of their cores.

PASSES = 4


def clock_ahead(ask: Callable[[], float], times: int = ROUND_TRIPS) -> ClockReading:
    """Return by how much another clock, read by `ask`, is ahead, and the largest error."""
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = RunClock.host_time_s()
        said_s = ask()
        exchanges.append((asked_s, said_s, RunClock.host_time_s()))
    own = least_round_trip(exchanges)
    return ClockReading(at_s=own.at_s, offset_s=-own.offset_s, bound_s=own.bound_s)


def core_speeds(own: str | None, others: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return core speeds relative to the slowest host. `own` is None if no nodes run here.

    Hosts are measured in turn, since several may be on one machine, `PASSES` times: the shortest time counts,
    as a host may be busy for a moment.
    """
    asked = dict(others) if own is None else {own: lambda: CoreTrial().least_s(), **others}
    if len(asked) < 2:
        return dict.fromkeys(asked, 1.0)
    passes = [{name: ask() for name, ask in asked.items()} for _ in range(PASSES)]
    return relative_speeds({name: min(each[name] for each in passes) for name in asked})
