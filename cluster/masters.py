"""How a TaskTracker and the two masters reach each other; the live form runs over Ray, tests use plain objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from schedbed.cluster.messages import Reply


class MasterGone(Exception):
    """The master could not be reached (it died, or is just restarting): the call may be repeated."""


class Masters(Protocol):
    """The JobTracker and the NameNode as somewhere else; each call may raise MasterGone."""

    async def job_tracker(self, method: str, *args: Any) -> Any:
        """Calls a method of the JobTracker."""
        ...

    async def name_node(self, method: str, *args: Any, **named: Any) -> Any:
        """Calls a method of the NameNode."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The JobTracker's reply with the specifications (JSON values) of the attempts it launches."""

    reply: Reply
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
