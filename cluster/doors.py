"""Remote calls between two processes by a Protocol (a door): the stub that sends calls, and the table that serves
them.

The Protocol alone defines the calls: pyright checks the callers, the table checks names from the wire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

Door = TypeVar("Door")
Method = Callable[..., Awaitable[Any]]


class Send(Protocol):
    """Carries one call to the other end and returns its result, or raises its exception."""

    def __call__(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Awaitable[Any]:
        """Send one call."""
        ...


def calls_of(door: type[Any]) -> dict[str, FunctionType]:
    """Return a door's methods by name, including those of the doors that it extends."""
    return {
        name: member
        for each in door.__mro__
        for name, member in vars(each).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


def methods_of(door: type[Any]) -> list[str]:
    """Return the names of a door's methods."""
    return list(calls_of(door))


def make_stub(door: type[Door], send: Send) -> Door:
    """Return an object with the methods of `door`, each of which calls `send`."""

    def method(name: str) -> Method:
        async def call(*args: Any, **named: Any) -> Any:
            return await send(name, args, named)

        return call

    return cast(Door, SimpleNamespace(**{name: method(name) for name in methods_of(door)}))


def make_table(door: type[Door], service: Door) -> Mapping[str, Method]:
    """Return the methods of `service` that callers may name: those of `door` and no others."""
    return {name: getattr(service, name) for name in methods_of(door)}
