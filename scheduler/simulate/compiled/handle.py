"""The state behind one pointer: compiled functions hand that on in no time, and are compiled in far less."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numba
from numba.experimental import structref

from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled
from schedbed.scheduler.simulate.compiled.state import State


@structref.register
class HandleType(numba.types.StructRef):
    """The type of a Handle in compiled code."""

    def preprocess_fields(self, fields: Any) -> Any:
        """As they are."""
        return fields

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Return a short name for symbols: with those of all fields, names would be most of what is compiled."""
        return "Handle", ()

    def get_data_type(self) -> Any:
        """Return the type of what is pointed to, which numba asks for at each access to a field."""
        return self._payload

    @cached_property
    def _payload(self) -> Any:
        return super().get_data_type()


class Handle(structref.StructRefProxy):
    """The fields of a State; made in compiled code only."""


structref.define_proxy(Handle, HandleType, list(State._fields))

_MADE = f"def make(s):\n    return Handle({', '.join(f's.{name}' for name in State._fields)})"


def _make() -> Any:
    """Return a constructor with as many arguments as a State has fields."""
    scope: dict[str, Any] = {"Handle": Handle}
    exec(_MADE, scope)  # numba takes no star arguments of a named tuple
    return scope["make"]


def _same(state: Any) -> Any:
    return state


handle_of = _same if CONFIG.DISABLE_JIT else compiled(_make())
