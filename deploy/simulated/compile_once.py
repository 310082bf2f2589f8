"""Compile the simulator's fast loop and cache its machine code, unless the cache has it.

`python -m schedbed.deploy.simulated.compile_once` is the process that does this.
"""

from __future__ import annotations

import fcntl

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.job_ends import JobEnds
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.simulate.compiled.code_cache import is_cached, lock_file
from schedbed.scheduler.simulate.compiled.run_compiled import run
from schedbed.scheduler.simulate.simulation import Simulation

ONE_TASK = {
    "cluster": {"nodes": 1},
    "policies": ["fifo"],
    "workload": {"jobs": [{"name": "one", "app": "synthetic", "maps": 1, "map": {"cpu": "1s"}}]},
}


def compile_loop() -> None:
    """Run a simulation of one task, which compiles the loop. First wait for other processes that compile it."""
    with lock_file() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_cached():
            scenario = resolve(ONE_TASK)
            setup = setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), Latencies())
            run(Simulation(setup, JobEnds()))


if __name__ == "__main__":
    compile_loop()
