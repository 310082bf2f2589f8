"""The base classes of the read-only proxies that a user's policy receives."""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from schedbed.cluster.messages import Usage
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.policy import HostedPolicy, PolicyFailed
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, TaskKind

put = object.__setattr__
"""Set an attribute of a proxy, bypassing the proxy's own `__setattr__`."""
raw_of, proxies_of = attrgetter("_Proxy__raw"), attrgetter("_Proxy__proxies")
"""Return the core's object behind a proxy, and the `Proxies` with the proxies of other objects."""


REASON_MAX = 1000
"""The maximum number of characters of a reason in a table."""


def clean(reason: str) -> str:
    """Return at most REASON_MAX characters of valid Unicode, which tables can store."""
    reason = reason[:REASON_MAX]
    return reason if reason.isascii() else reason.encode("utf-8", "replace").decode()


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise TypeError(f"{label(self)}.{name} is read-only: a policy looks and proposes, it changes nothing")


def label(of: object) -> str:
    """Return a word for a proxy, such as `job` for a `JobProxy`."""
    return re.sub("^_Withheld|^_Watched|Proxy$", "", type(of).__name__).lower()


def live(name: str) -> property:
    """Return a property that reads the core's object at each access. The value itself must be immutable."""
    return property(attrgetter(f"_Proxy__raw.{name}"))


class Proxy:
    """The base class of read-only proxies. Changes and copies raise TypeError.

    A `__getattr__` would slow down every attribute; `blame.told` words the error for a missing one.
    """

    __slots__ = ("__proxies", "__raw")

    def __init__(self, proxies: dict[Any, Any], raw: Any) -> None:
        put(self, "_Proxy__proxies", proxies)
        put(self, "_Proxy__raw", raw)

    __setattr__ = _refuse
    __delattr__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a policy's {label(self)} cannot be copied: keep the values that are needed")

    def __repr__(self) -> str:
        return f"<{label(self)}>"


class MapProxy(Mapping[str, Any]):
    """A read-only proxy of a dictionary from a key to an object of the core. It returns proxies as values."""

    __slots__ = ("__proxies", "__raw")

    def __init__(self, proxies: dict[Any, Any], raw: Mapping[str, Any]) -> None:
        put(self, "_MapProxy__proxies", proxies)
        put(self, "_MapProxy__raw", raw)

    __setattr__ = _refuse
    __delattr__ = _refuse

    def _refuse_items(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the view is read-only: a policy looks and proposes, it changes nothing")

    __setitem__ = __delitem__ = clear = pop = popitem = update = setdefault = __ior__ = _refuse_items
    __reduce_ex__ = _refuse_items

    def __getitem__(self, key: str) -> Any:
        return self.__proxies[self.__raw[key]]

    def __contains__(self, key: object) -> bool:
        return key in self.__raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.__raw)

    def __len__(self) -> int:
        return len(self.__raw)

    def values(self) -> Any:
        proxies = self.__proxies
        return tuple(map(proxies.__getitem__, self.__raw.values()))

    def items(self) -> Any:
        proxies = self.__proxies
        return tuple([(key, proxies[raw]) for key, raw in self.__raw.items()])

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


def _read_only(cls: type) -> type:
    """Return a subclass of `cls` whose attributes cannot be set or deleted."""
    return type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse, "__delattr__": _refuse})


_FIELDS = {cls: [field.name for field in fields(cls)] for cls in (Usage, Counters, Part)}
_STILL = {cls: (_read_only(cls), names, attrgetter(*names)) for cls, names in _FIELDS.items()}


def still(value: Any) -> Any:
    """Return a copy of `value`, an object of the class Usage, Counters or Part, that cannot be changed."""
    cls, names, values = _STILL[type(value)]
    copy = object.__new__(cls)
    for name, each in zip(names, values(value), strict=True):
        put(copy, name, each)
    return copy


def frozen(value: Any) -> Any:
    """Return a read-only version of a JSON value: lists become tuples, and mappings cannot be changed."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(each) for key, each in value.items()})
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def is_plain(given: Any) -> bool:
    """Return whether the value is a number, string, bytes, TaskKind, None, or a collection of these."""
    kind = type(given)
    if kind is dict:
        return all(is_plain(key) and is_plain(each) for key, each in given.items())
    return all(map(is_plain, given)) if kind in (list, tuple) else kind in _PLAIN


_PLAIN = (type(None), bool, int, float, str, bytes, TaskKind)


# A check that a user's policy has not changed the core's state.
#
# A policy receives only read-only proxies, but Python code can access the objects behind them.


def check_untouched(core: Core, policy: Any, missing_jobs: int) -> None:
    """Raise PolicyFailed if a user's policy seems to have changed the core: it is inconsistent, or misses rows."""
    if not isinstance(policy, HostedPolicy):
        return
    try:
        core.check_tables()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}".removesuffix(": ")
    else:
        wrong = f"{missing_jobs} jobs are missing" if missing_jobs else ""
    if wrong:
        text = f"the core's books are wrong ({wrong}), as if the policy had changed them past its view"
        raise PolicyFailed(f"{text} ({policy.line_of('decide')})")


# Protection of Python's builtins and the module `time` against replacement by a user's file.

T = TypeVar("T")
MODULES = (builtins, time)


def restoring_builtins(act: Callable[[], T]) -> tuple[T, list[str]]:
    """Call `act`, and restore what it replaced in Python's builtins and `time`. Return result and names."""
    before = [dict(vars(module)) for module in MODULES]
    try:
        found = act()
    finally:
        changed = []
        for module, kept in zip(MODULES, before, strict=True):
            now = vars(module)
            for name, function in kept.items():
                if callable(function) and now.get(name) is not function:
                    changed.append(f"{module.__name__}.{name}")
                    now[name] = function
    return found, changed
