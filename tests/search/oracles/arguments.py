"""Records the constructor arguments of policies' axes.

References use these arguments, and not the state that an axis derives from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.split import SplitLocality
from schedbed.scheduler.order.capacity import Capacity
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policies.late import Late

NOTED = (Fair, Capacity, Delay, SplitLocality, Late)


@contextmanager
def noted_arguments() -> Iterator[None]:
    """Make each axis in `NOTED` keep its constructor arguments in `asked`, while the context lasts."""
    with ExitStack() as stack:
        for kind in NOTED:
            stack.enter_context(patch.object(kind, "__init__", _noting(kind.__init__)))
        yield


def _noting(inner: Any) -> Any:
    signature = inspect.signature(inner)

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        bound = signature.bind(self, *arguments, **named)
        bound.apply_defaults()
        if not hasattr(self, "asked"):  # Keep the arguments of the class itself, not of its parents.
            self.asked = SimpleNamespace(**bound.arguments)
        inner(self, *arguments, **named)

    return init
