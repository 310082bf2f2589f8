"""A pointer to all arrays of the compiled loop.

Compiled functions pass this one pointer to each other, which is fast and shortens compilation.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numba
from numba.experimental import structref

from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled
from schedbed.scheduler.simulate.compiled.state import State


@structref.register
class HandleType(numba.types.StructRef):
    """The numba type of a `Handle` in compiled code."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Return the fields unchanged. Numba calls this method to adjust field types."""
        return fields

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Return a short name for the type, which numba uses in the symbols of compiled functions.

        The default name contains the names of all fields and would dominate the size of the compiled code.
        """
        return "Handle", ()

    def get_data_type(self) -> Any:
        """Return the numba type of the fields.

        The result is cached, since numba calls this method at each access to a field.
        """
        return self._payload

    @cached_property
    def _payload(self) -> Any:
        return super().get_data_type()


class Handle(structref.StructRefProxy):
    """A pointer to the fields of a `State`. Only compiled code creates handles."""


structref.define_proxy(Handle, HandleType, list(State._fields))

_MADE = f"def make(s):\n    return Handle({', '.join(f's.{name}' for name in State._fields)})"


def _make() -> Any:
    """Return a function that creates a `Handle` from a `State`.

    The function is generated as text, because it must pass each field as a separate argument.
    """
    scope: dict[str, Any] = {"Handle": Handle}
    exec(_MADE, scope)  # Numba cannot unpack a named tuple with a star.
    return scope["make"]


def _same(state: Any) -> Any:
    return state


handle_of = _same if CONFIG.DISABLE_JIT else compiled(_make())
