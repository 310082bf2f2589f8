"""Calls from the compiled loop to a policy in Python, and the list of what happened between two calls (compiled).

The list (`State.steps`) has the events that change the JobTracker's state. Python repeats them before the policy
is asked, so that the policy finds the state of that time.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled
from schedbed.scheduler.simulate.compiled.state import State

ANSWER = ctypes.PYFUNCTYPE(
    ctypes.c_longlong, ctypes.c_double, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_longlong
)
"""The type of the function that answers questions. Its arguments are the time, the number of events in the list,
the number of a node, or `NOBODY`, and the kind of task, 0 for a map and 1 for a reduce. It returns the number of a
task, `NOTHING` or `GIVES_UP`."""
NOBODY = -1
"""Stands for a node if the question is not about a slot: whether the policy needs the next heartbeat of any node. The
answer is a number from 0 on if it does."""
NOTHING, GIVES_UP = -1, -2
"""The answer no, and the answer that ends the loop, after an error in Python."""

JOINED, SUBMITTED, REPORTED, COMMITTED, TICKED, BEAT, PASSED = range(7)
"""The events: a node joined, a job was submitted, a task's attempt was reported as ended, its output was
committed, a tick of the JobTracker, whose number is 0, a heartbeat of a node, and one that was skipped."""


def _call_in_python(address: int, now_s: float, steps: int, node: int, kind: int) -> int:
    return ANSWER(int(address))(float(now_s), int(steps), int(node), int(kind))


@intrinsic
def _call_compiled(typing_context: Any, address: Any, now_s: Any, steps: Any, node: Any, kind: Any) -> Any:
    """Call the function at `address`, an `ANSWER`, and return its result."""
    whole, real = types.int64, types.float64

    def generate(context: Any, builder: Any, of: Any, values: Any) -> Any:
        word, time = context.get_value_type(whole), context.get_value_type(real)
        function = ir.FunctionType(word, [time, word, word, word])
        return builder.call(builder.inttoptr(values[0], ir.PointerType(function)), values[1:])

    return signature(whole, whole, real, whole, whole, whole), generate


_call: Any = _call_in_python if CONFIG.DISABLE_JIT else _call_compiled


@compiled
def ask(state: State, node: int, kind: int) -> int:
    """Return the policy's answer to an offer of a free slot of the node: a task, `NOTHING` or `GIVES_UP`.

    The list of events is empty afterward.
    """
    num = state.num
    answer = _call(num.asks, state.sec.now, num.n_steps, node, kind)
    num.n_steps = 0
    num.n_decisions = state.asked_rows[0]
    if answer == GIVES_UP:
        num.gave_up = 1
    return answer


@compiled
def tell(state: State, step: int, number: int) -> None:
    """Add an event at the current time to the list of events, if a policy in Python is asked.

    `number` is that of a node, job or task, depending on `step`.
    """
    tell_at(state, state.sec.now, step, number)


@compiled
def tell_at(state: State, at_s: float, step: int, number: int) -> None:
    """Add an event at the time `at_s` to the list of events, as `tell` does."""
    if state.num.asks == 0:
        return
    if state.num.n_steps == len(state.steps):
        ask(state, NOBODY, 0)
    entry = state.steps[state.num.n_steps]
    state.num.n_steps += 1
    entry.t = at_s
    entry.step = step
    entry.number = number
