"""Calls from the compiled loop to a policy in Python, and the list of what happened between two calls (compiled).

The list (`State.steps`) has the events that change the JobTracker's state. Python repeats them before the policy
is asked, so that the policy finds the state of that time.
"""

from __future__ import annotations

import ctypes
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic

from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled
from schedbed.scheduler.simulate.compiled.state import State

ANSWER = ctypes.PYFUNCTYPE(ctypes.c_longlong, ctypes.c_longlong, ctypes.c_longlong)
"""The type of the function that answers questions. Its arguments are the number of a node, or `NOBODY`, and the
kind of task, 0 for a map and 1 for a reduce. It returns the number of a task, `NOTHING` or `GIVES_UP`."""
NOBODY = -1
"""Stands for a node if there is no question, but the list of events is full."""
NOTHING, GIVES_UP = -1, -2
"""No task is to start, and the answer that ends the loop, after an error in Python."""

JOINED, SUBMITTED, REPORTED, COMMITTED, TICKED = range(5)
"""The events: a node joined, a job was submitted, a task's attempt was reported as ended, its output was
committed, and a tick of the JobTracker, whose number is 0."""


def _call_in_python(address: int, node: int, kind: int) -> int:
    return ANSWER(int(address))(int(node), int(kind))


@intrinsic
def _call_compiled(typing_context: Any, address: Any, node: Any, kind: Any) -> Any:
    """Call the C function at `address` with two whole numbers, and return its result."""
    integer = types.int64

    def generate(context: Any, builder: Any, of: Any, values: Any) -> Any:
        word = context.get_value_type(integer)
        kind_of_function = cgutils.ir.FunctionType(word, [word, word])
        function = builder.inttoptr(values[0], cgutils.ir.PointerType(kind_of_function))
        return builder.call(function, values[1:])

    return signature(integer, integer, integer, integer), generate


_call = _call_in_python if CONFIG.DISABLE_JIT else _call_compiled


@compiled
def ask(state: State, node: int, kind: int) -> int:
    """Return the policy's answer to an offer of a free slot of the node: a task, `NOTHING` or `GIVES_UP`."""
    answer = _call(state.num.asks, node, kind)
    if answer == GIVES_UP:
        state.num.gave_up = 1
    return answer


@compiled
def tell(state: State, step: int, number: int) -> None:
    """Add an event at the current time to the list of events, if a policy in Python is asked.

    `number` is that of a node, job or task, depending on `step`.
    """
    if state.num.asks == 0:
        return
    if state.num.n_steps == len(state.steps):
        ask(state, NOBODY, 0)
        state.num.n_steps = 0  # Also if Python gave up.
    entry = state.steps[state.num.n_steps]
    state.num.n_steps += 1
    entry.t = state.sec.now
    entry.step = step
    entry.number = number
