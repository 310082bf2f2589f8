"""A live emulation testbed for MapReduce and cluster job schedulers.

Functions and classes:

- `run(scenario, policies=...)` runs a scenario under one or more policies and returns a `Result`.
- `connect(name)` returns a client of a running cluster that was started by `schedbed up`.
- `Result` gives access to the tables, the summary and the report of a run.
- `policy` is the module with the types for writing a policy: `Policy`, `Order`, `Proposal`, the views and
  others.
- `BadInput` is raised for wrong arguments or a wrong scenario, `RunFailed` for a run or a cluster that
  failed.

Example:

    >>> import schedbed
    >>> job = {"name": "a", "app": "synthetic", "maps": 4, "map": {"cpu": "10s"}}
    >>> scenario = {"name": "tiny", "cluster": {"nodes": 2}, "workload": {"jobs": [job]}}
    >>> result = schedbed.run(scenario, policies=["fifo", "fair"], machines="sim")
    >>> sorted(result.summary["policies"])
    ['fair', 'fifo']

Each public name is imported at its first use, because agents and attempts import their own modules through
this package and must start fast.
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
    """Return the public object with this name. Its module is imported when the name is first used.

    Raises AttributeError for names that are not public.
    """
    if name == "policy":
        return import_module("schedbed.policy")
    if name not in _HOMES:
        raise AttributeError(f"module 'schedbed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names of the package, as listed in `__all__`."""
    return list(__all__)
