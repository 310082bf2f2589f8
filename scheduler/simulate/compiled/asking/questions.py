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
the number of a node, and the question. It returns `NOTHING`, `GIVES_UP` or a number from 0 on."""
ANY_MAP, ANY_REDUCE, RESTS, TURNED, AWAITS, LISTENS = range(6)
"""The questions. `ANY_MAP`, `ANY_REDUCE`: which task starts in a free slot of the node. `RESTS`: whether the node
rests. `TURNED`: whether resting nodes may receive a task again (see `elision.Resting`). `AWAITS`: whether the policy
needs the next heartbeat of any node. `LISTENS` is no question, and only passes the list of events on. The answer yes
is 0."""
NOTHING, GIVES_UP = -1, -2
"""The answer no, and the answer after an error in Python, which ends the loop."""
NOBODY = -1
"""The number of the node in a question that is not about a node."""

JOINED, SUBMITTED, REPORTED, STOPPED, COMMITTED, TICKED, HEARTBEAT, PASSED = range(8)
"""The events, with what the number of an event stands for. A node joined (node). A job was submitted (job). An
attempt was reported as ended, or as stopped, and an attempt's output was committed (task). The JobTracker did
periodic work (0). A node sent a heartbeat, and a heartbeat was skipped (node)."""


def _call_in_python(address: int, now_s: float, steps: int, node: int, question: int) -> int:
    return ANSWER(int(address))(float(now_s), int(steps), int(node), int(question))


@intrinsic
def _call_compiled(
    typing_context: Any, address: Any, now_s: Any, steps: Any, node: Any, question: Any
) -> Any:
    """Call the function at `address`, an `ANSWER`, and return its result."""
    whole, real = types.int64, types.float64

    def generate(context: Any, builder: Any, of: Any, values: Any) -> Any:
        word, time = context.get_value_type(whole), context.get_value_type(real)
        function = ir.FunctionType(word, [time, word, word, word])
        return builder.call(builder.inttoptr(values[0], ir.PointerType(function)), values[1:])

    return signature(whole, whole, real, whole, whole, whole), generate


_call: Any = _call_in_python if CONFIG.DISABLE_JIT else _call_compiled


@compiled
def ask(state: State, node: int, question: int) -> int:
    """Return the answer to a question about the node: a task, yes, `NOTHING` or `GIVES_UP`.

    The list of events is empty afterward.
    """
    num = state.num
    answer = _call(num.asks, state.sec.now, num.n_steps, node, question)
    num.n_steps = 0
    num.n_decisions = state.answered[0]
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
        ask(state, NOBODY, LISTENS)
    entry = state.steps[state.num.n_steps]
    state.num.n_steps += 1
    entry.t = at_s
    entry.step = step
    entry.number = number
