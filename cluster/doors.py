"""Remote calls between two processes. A "door" is a Protocol that lists the calls.

The calling process uses a stub, an object whose methods send the calls. The serving process uses a table of
the methods that may be called. The Protocol alone defines the calls: pyright checks the callers, and the
table has only the method names of the Protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

Door = TypeVar("Door")
Method = Callable[..., Awaitable[Any]]


class Send(Protocol):
    """A function that sends one call to the other process and returns the result, or raises its exception."""

    def __call__(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Awaitable[Any]:
        """Send one call of `method` with positional arguments `args` and keyword arguments `named`."""
        ...


def calls_of(door: type[Any]) -> dict[str, FunctionType]:
    """Return the methods of a door (a Protocol of remote calls) by name, including inherited methods."""
    return {
        name: member
        for each in door.__mro__
        for name, member in vars(each).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


def methods_of(door: type[Any]) -> list[str]:
    """Return the names of the methods of a door (a Protocol of remote calls)."""
    return list(calls_of(door))


def make_stub(door: type[Door], send: Send) -> Door:
    """Return an object with the methods of the Protocol `door`. Each method sends its call with `send`."""

    def method(name: str) -> Method:
        async def call(*args: Any, **named: Any) -> Any:
            return await send(name, args, named)

        return call

    return cast(Door, SimpleNamespace(**{name: method(name) for name in methods_of(door)}))


def make_table(door: type[Door], service: Door) -> Mapping[str, Method]:
    """Return the methods of `service` that remote callers may use: only the methods of `door`.

    `door` is a Protocol of remote calls.
    """
    return {name: getattr(service, name) for name in methods_of(door)}
