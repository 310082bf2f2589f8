"""The state behind one pointer, which compiled functions pass on quickly, and with which they compile much faster."""

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
        """Return the fields unchanged."""
        return fields

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Return a short name for symbols. With the names of all fields, symbols would be most of the compiled
        code."""
        return "Handle", ()

    def get_data_type(self) -> Any:
        """Return the type of the target, which numba asks for at each access to a field."""
        return self._payload

    @cached_property
    def _payload(self) -> Any:
        return super().get_data_type()


class Handle(structref.StructRefProxy):
    """The fields of a State, made in compiled code only."""


structref.define_proxy(Handle, HandleType, list(State._fields))

_MADE = f"def make(s):\n    return Handle({', '.join(f's.{name}' for name in State._fields)})"


def _make() -> Any:
    """Return a constructor that takes one argument for each field of a State."""
    scope: dict[str, Any] = {"Handle": Handle}
    exec(_MADE, scope)  # numba takes no star arguments of a named tuple
    return scope["make"]


def _same(state: Any) -> Any:
    return state


handle_of = _same if CONFIG.DISABLE_JIT else compiled(_make())
