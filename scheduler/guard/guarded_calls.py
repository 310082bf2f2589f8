"""Calls of a user's policy with a time limit, a call mark, and errors that name the policy's line.

A call also ends when the policy reads a value that a simulation may have skipped (`BeatRead`).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, NoReturn

from schedbed.scheduler.guard.blame import Culprit, told
from schedbed.scheduler.guard.call_mark import CALL_MARK
from schedbed.scheduler.guard.time_bound import TIME_BOUND, Overdue
from schedbed.scheduler.guard.user_interrupt import is_raised
from schedbed.scheduler.policy import PolicyFailed


class BeatRead(BaseException):
    """The exception raised when a policy reads a value that a skipped heartbeat may have changed.

    The simulation then starts again without skipping heartbeats.
    """


class BeatWatch:
    """A record of one policy's reads of values that heartbeats change.

    `read`: the policy has read such a value. `is_over`: the run has ended.
    """

    __slots__ = ("is_over", "read")

    def __init__(self) -> None:
        self.read = False
        self.is_over = False

    def note(self) -> None:
        """Record a read of a value that heartbeats change.

        Raises BeatRead, or TypeError after the end of the run.
        """
        if self.is_over:
            raise TypeError("the run has ended: a policy keeps numbers, not the view's objects")
        self.read = True
        raise BeatRead


class Guard:
    """A caller for one policy's code, with a time limit and errors that name the policy's line."""

    def __init__(self, culprit: Culprit, made: type = object) -> None:
        self._culprit = culprit
        self._made = made
        self.watch = BeatWatch()
        TIME_BOUND.watch()

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the policy and return its result.

        Raises PolicyFailed with the policy's line if the function fails or takes too long. `what` names the
        call.
        """
        return self.wrap(what, function)(*arguments)

    def wrap(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the function that does the same as `call`, for repeated calls.

        All code is inline for speed.
        """
        bound, mark, now, watch = TIME_BOUND, CALL_MARK, (what, self._culprit), self.watch
        number = mark.number(f"{what} ({self.line_of(what)})")

        def call(*arguments: Any) -> Any:
            try:
                memory = mark.memory
                bound.thread = thread = get_ident()
                if memory is not None:  # Same as `CallMark.enter`.
                    mark.inside, mark.thread = True, thread
                    memory[0] = number
                    mark.count = memory[1] = (mark.count + 2) & 255
                bound.serial += 1
                bound.now = now
                try:
                    return function(*arguments)
                finally:
                    bound.now = None
                    mark.inside = False
                    if memory is not None:  # Same as `CallMark.leave`.
                        memory[1] = mark.count & 254
                    if bound.interrupted:
                        bound.settle()
                    if watch.read:  # Also raise if the policy caught the exception.
                        raise BeatRead
            except BeatRead:
                raise
            except BaseException as error:
                mark.enter(number)  # Computing the error's text may run code of the policy.
                try:
                    self._fail(what, error)
                finally:
                    mark.leave()

        return call

    def _fail(self, what: str, error: BaseException) -> NoReturn:
        """Raise the exception that reports an error of the policy's code to the caller."""
        if isinstance(error, Overdue):
            TIME_BOUND.rest()
            raise PolicyFailed(TIME_BOUND.trouble) from None
        if isinstance(error, PolicyFailed):
            raise error
        if isinstance(error, KeyboardInterrupt) and not is_raised(error):
            raise error  # Ctrl-C during the policy's call.
        raise self.blamed(what, error) from error

    def blamed(self, what: str, error: BaseException) -> PolicyFailed:
        """Return the PolicyFailed for an error of the policy's code.

        The error's text is computed with a time limit, because its class may be the policy's own.
        """
        place = self._culprit.line_of_traceback(error.__traceback__) or self.line_of(what)
        try:
            text = TIME_BOUND.call(what, self._culprit, told, (error,))
        except Overdue:
            return PolicyFailed(TIME_BOUND.trouble)
        except BaseException as other:
            return PolicyFailed(f"{type(error).__name__}, whose text is a {type(other).__name__} ({place})")
        return PolicyFailed(f"{text} ({place})")

    def failed(self, text: str, method: str) -> PolicyFailed:
        """Return a PolicyFailed with the text and the line where the policy's method begins."""
        return PolicyFailed(f"{text} ({self.line_of(method)})")

    def line_of(self, method: str) -> str:
        """Return the file and line where the method of the policy begins."""
        return self._culprit.line_of_method(self._made, method)
