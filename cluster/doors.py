"""Remote calls between two processes. A "door" is a Protocol that lists the calls.

The calling process uses a stub, an object whose methods send the calls. The serving process uses a table from
method name to function. The Protocol is the only definition of the calls: pyright checks the callers against
it, and the table has only the methods that the Protocol lists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

Door = TypeVar("Door")
Method = Callable[..., Awaitable[Any]]


class Send(Protocol):
    """The type of a function that sends one call to the other process.

    The function returns the result of the call, or raises the exception that the other process raised.
    """

    def __call__(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Awaitable[Any]:
        """Call the remote method `method` with positional arguments `args` and keyword arguments `named`."""
        ...


def calls_of(door: type[Any]) -> dict[str, FunctionType]:
    """Return a dictionary from name to function for the methods of a door (a Protocol of remote calls).

    Inherited methods are included.
    """
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
    """Return an object with the methods of `door`, a Protocol of remote calls.

    Each method makes a remote call: it passes its name and arguments to `send`.
    """

    def method(name: str) -> Method:
        async def call(*args: Any, **named: Any) -> Any:
            return await send(name, args, named)

        return call

    return cast(Door, SimpleNamespace(**{name: method(name) for name in methods_of(door)}))


def make_table(door: type[Door], service: Door) -> Mapping[str, Method]:
    """Return a dictionary from method name to method of `service`, with only the methods of `door`.

    `door` is a Protocol of remote calls. Remote callers can thus call no other method of `service`.
    """
    return {name: getattr(service, name) for name in methods_of(door)}
