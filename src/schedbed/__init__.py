"""A live emulation testbed for MapReduce and cluster job schedulers.

`run` runs a scenario under one or more policies and returns a `Result`; `connect` returns a cluster that `schedbed up`
keeps up. `policy` has the types that a policy is written against. `BadInput` and `RunFailed` are the two errors.

Example:

    >>> import schedbed
    >>> job = {"name": "a", "app": "synthetic", "maps": 4, "map": {"cpu": "10s"}}
    >>> scenario = {"name": "tiny", "cluster": {"nodes": 2}, "workload": {"jobs": [job]}}
    >>> result = schedbed.run(scenario, policies=["fifo", "fair"], machines="sim")
    >>> sorted(result.summary["policies"])
    ['fair', 'fifo']

Agents and attempts also import their modules through this package, so public names are loaded at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbed import policy
    from schedbed.deploy.failures import RunFailed
    from schedbed.deploy.python_face import Result, connect, run
    from schedbed.tasks.errors import BadInput

__version__ = "1.0.0rc1"
__all__ = ["BadInput", "Result", "RunFailed", "__version__", "connect", "policy", "run"]

_HOMES = {
    "BadInput": "schedbed.tasks.errors",
    "Result": "schedbed.deploy.python_face",
    "RunFailed": "schedbed.deploy.failures",
    "connect": "schedbed.deploy.python_face",
    "run": "schedbed.deploy.python_face",
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    if name == "policy":
        return import_module("schedbed.policy")
    if name not in _HOMES:
        raise AttributeError(f"module 'schedbed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
