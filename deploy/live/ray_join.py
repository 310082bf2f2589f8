"""Functions that join a running Ray cluster, with Ray's variables, and start actors or tasks on its hosts."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", f"schedbed{secrets.token_hex(32)}")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault(
    "RAY_task_events_report_interval_ms", "0"
)  # No task log, which costs CPU even when idle.
os.environ.setdefault(
    "RAY_task_oom_retries", "3"
)  # Ray would repeat a task that needs too much memory forever.

import ray.job_config
from ray._private import services as ray_services
from ray._private import worker as ray_workers
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import schedbed
from schedbed.cluster.masters import MasterGone
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.cluster_gate import check_cluster, gcs_address, use_the_clusters_token
from schedbed.deploy.live.hosts import Host, hosts_of
from schedbed.deploy.live.lean_ray import results_while_ray_runs
from schedbed.deploy.live.worker_imports import import_failure, use_own_path
from schedbed.deploy.options import no_interrupts
from schedbed.tasks.errors import BadInput

raylet: Any = importlib.import_module("ray._raylet")  # Ray gives no types for it.

CALL_S = 120.0  # Time limit of the driver for one call.


def wait_for(calls: list[Any], timeout_s: float = CALL_S) -> list[Any]:
    """Return results of actors' calls. Raises their exceptions, or MasterGone.

    RunFailed means that Ray has ended, or an actor cannot import its code.
    """
    try:
        return results_while_ray_runs(ray, ray_workers, calls, timeout_s)
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        if why := import_failure(str(error)):
            raise RunFailed(why) from None
        raise MasterGone(str(error).splitlines()[0]) from None


@contextmanager
def actors_on_hosts(address: str, actor: type) -> Iterator[dict[Host, Any]]:
    """Join the Ray cluster, and yield {host: actor}, the driver's first. Raises BadInput."""
    join_ray(address, f"schedbed-{secrets.token_hex(4)}")
    try:
        hosts = hosts_of(ray.nodes(), ray.get_runtime_context().get_node_id())
        options = {"num_cpus": 0, "max_restarts": 0, "max_concurrency": 10}
        yield {
            host: ray.remote(actor)
            .options(**options, scheduling_strategy=NodeAffinitySchedulingStrategy(host.ray_id, soft=False))
            .remote()
            for host in hosts
        }
    finally:
        ray.shutdown()


def tasks_on_hosts(
    address: str,
    function: Callable[..., Any],
    arguments: Callable[[int], Iterable[Any]],
    *,
    shared: Any = None,
    at_once: int | None = None,
    needs_bytes: int = 0,
) -> Generator[tuple[int, Any]]:
    """Join a Ray cluster and call the function for each argument, on one core of any host. Raises BadInput.

    Yield (index, result or exception) as calls end. At most `at_once` run, by default one per core;
    `arguments` gets this number, and an argument is taken when its call can start. Each host receives
    `shared` once, as a call's last argument. `needs_bytes` is a call's expected memory. Calls of a lost host
    are repeated elsewhere.
    """
    join_ray(address, f"schedbed-{secrets.token_hex(4)}")
    try:
        largest = max(node["Resources"].get("memory", 0.0) for node in ray.nodes() if node["Alive"])
        task: Any = ray.remote(function).options(num_cpus=1, memory=min(needs_bytes, int(largest)))
        more = () if shared is None else (ray.put(shared),)
        most = at_once or max(1, int(ray.cluster_resources().get("CPU", 0.0)))
        waiting: dict[Any, int] = {}
        left = enumerate(arguments(most))
        while True:
            for number, argument in islice(left, most - len(waiting)):
                waiting[task.remote(argument, *more)] = number
            if not waiting:
                return
            [call], _ = ray.wait(list(waiting), num_returns=1)
            number, found = waiting.pop(call), _result_of(call)
            del call  # Ray frees the result.
            yield number, found
            del found
    finally:
        with no_interrupts():
            ray.shutdown()


def _result_of(call: Any) -> Any:
    """Return the result of an ended call, or the exception with which it ended."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        return error.cause
    except RayError as error:
        return error


def join_ray(address: str, namespace: str) -> None:
    """Connect to the Ray cluster, and send schedbed's code to its hosts. Raises BadInput."""
    try:
        where = gcs_address(address, ray_services)
        use_the_clusters_token(raylet)
        check_cluster(where, raylet)
        # Paths instead of modules: Ray cannot copy modules if the run itself is a submitted Ray job.
        ray.init(
            address=where,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace=namespace,
            runtime_env={"py_modules": [str(Path(schedbed.__file__).parent)], "excludes": ["__pycache__"]},
            job_config=use_own_path(ray.job_config.JobConfig(), shipped=True),
        )
    except BadInput as error:
        raise BadInput(f"--address {address}: {error}") from None
    except Exception as error:  # For example, another version of Ray or Python.
        raise BadInput(f"--address {address}: {' '.join(str(error).split())}") from error
