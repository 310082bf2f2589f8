"""The base of all faces: read-only objects, dictionaries and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NoReturn

from schedbed.cluster.messages import Usage
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, TaskKind

put = object.__setattr__
"""Sets what a face keeps, past the face's own refusal."""
raw_of, faces_of = attrgetter("_Face__raw"), attrgetter("_Face__faces")
"""The core's object behind a face, and where other faces come from."""


REASON_MAX = 1000
"""Characters of a reason that are kept."""


def clean(reason: str) -> str:
    """Return the text as tables can store it: of bounded length and valid Unicode."""
    reason = reason[:REASON_MAX]
    return reason if reason.isascii() else reason.encode("utf-8", "replace").decode()


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    """Return a function that refuses to change an attribute."""
    raise TypeError(f"{label(self)}.{name} is read-only: a policy looks and proposes, it changes nothing")


def label(of: object) -> str:
    """Return the name of a face in messages, such as `job` for a `JobFace`."""
    return re.sub("^_Withheld|^_Watched|Face$", "", type(of).__name__).lower()


def live(name: str) -> property:
    """Return a property that looks the attribute up in the core's object each time. For immutable values."""
    return property(attrgetter(f"_Face__raw.{name}"))


class Face:
    """The base class of faces. It refuses changes and copies.

    It has no `__getattr__`, which would slow down every attribute; `blame.told` makes the message for a missing
    attribute.
    """

    __slots__ = ("__faces", "__raw")

    def __init__(self, faces: dict[Any, Any], raw: Any) -> None:
        put(self, "_Face__faces", faces)
        put(self, "_Face__raw", raw)

    __setattr__ = _refuse
    __delattr__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a policy's {label(self)} cannot be copied: keep the values that are needed")

    def __repr__(self) -> str:
        return f"<{label(self)}>"


class MapFace(Mapping[str, Any]):
    """A read-only face of a dictionary of the core's objects."""

    __slots__ = ("__faces", "__raw")

    def __init__(self, faces: dict[Any, Any], raw: Mapping[str, Any]) -> None:
        put(self, "_MapFace__faces", faces)
        put(self, "_MapFace__raw", raw)

    __setattr__ = _refuse
    __delattr__ = _refuse

    def _refuse_items(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the view is read-only: a policy looks and proposes, it changes nothing")

    __setitem__ = __delitem__ = clear = pop = popitem = update = setdefault = __ior__ = _refuse_items
    __reduce_ex__ = _refuse_items

    def __getitem__(self, key: str) -> Any:
        return self.__faces[self.__raw[key]]

    def __contains__(self, key: object) -> bool:
        return key in self.__raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.__raw)

    def __len__(self) -> int:
        return len(self.__raw)

    def values(self) -> Any:
        """Return the faces, in the core's order."""
        faces = self.__faces
        return tuple(map(faces.__getitem__, self.__raw.values()))

    def items(self) -> Any:
        """Return the keys with their faces, in the core's order."""
        faces = self.__faces
        return tuple([(key, faces[raw]) for key, raw in self.__raw.items()])

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


def _read_only(cls: type) -> type:
    """Return a subclass whose objects are read-only."""
    return type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse, "__delattr__": _refuse})


_FIELDS = {cls: [field.name for field in fields(cls)] for cls in (Usage, Counters, Part)}
_STILL = {cls: (_read_only(cls), names, attrgetter(*names)) for cls, names in _FIELDS.items()}


def still(value: Any) -> Any:
    """Return a read-only copy."""
    cls, names, values = _STILL[type(value)]
    copy = object.__new__(cls)
    for name, each in zip(names, values(value), strict=True):
        put(copy, name, each)
    return copy


def frozen(value: Any) -> Any:
    """Return JSON values as read-only objects."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(each) for key, each in value.items()})
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def is_plain(given: Any) -> bool:
    """Return whether the value consists only of numbers, texts, kinds of tasks and None, in lists, tuples and
    dictionaries."""
    kind = type(given)
    if kind is dict:
        return all(is_plain(key) and is_plain(each) for key, each in given.items())
    return all(map(is_plain, given)) if kind in (list, tuple) else kind in _PLAIN


_PLAIN = (type(None), bool, int, float, str, bytes, TaskKind)
