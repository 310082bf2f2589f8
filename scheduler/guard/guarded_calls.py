"""Calls of a user's policy: marked, bounded in time, with errors that name the policy's line, and ended at once when
the policy reads what a simulation may have skipped."""

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
    """A policy has read a value that a skipped heartbeat may have changed, so the simulation must begin again."""


class BeatWatch:
    """The reads of one policy. `read`: the policy has read a value that heartbeats bring. `is_over`: the run ended."""

    __slots__ = ("is_over", "read")

    def __init__(self) -> None:
        self.read = False
        self.is_over = False

    def note(self) -> None:
        """Note a read of a value that heartbeats bring. Raises BeatRead, or TypeError after the end of the run."""
        if self.is_over:
            raise TypeError("the run has ended: a policy keeps numbers, not the view's objects")
        self.read = True
        raise BeatRead


class Guard:
    """Calls the code of one policy."""

    def __init__(self, culprit: Culprit, made: type = object) -> None:
        self._culprit = culprit
        self._made = made
        self.watch = BeatWatch()
        TIME_BOUND.watch()

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the policy's code. Raises PolicyFailed with the policy's line if the code fails or hangs."""
        return self.wrap(what, function)(*arguments)

    def wrap(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the function for repeated calls, see `call`. All steps are inline for speed."""
        bound, mark, now, watch = TIME_BOUND, CALL_MARK, (what, self._culprit), self.watch
        number = mark.number(f"{what} ({self.line_of(what)})")

        def call(*arguments: Any) -> Any:
            try:
                memory = mark.memory
                bound.thread = thread = get_ident()
                if memory is not None:  # as in `CallMark.enter`
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
                    if memory is not None:  # as in `CallMark.leave`
                        memory[1] = mark.count & 254
                    if bound.interrupted:
                        bound.settle()
                    if watch.read:  # also if the policy has caught the exception
                        raise BeatRead
            except BeatRead:
                raise
            except BaseException as error:
                mark.enter(number)  # the error's text may be code of the policy, too
                try:
                    self._fail(what, error)
                finally:
                    mark.leave()

        return call

    def _fail(self, what: str, error: BaseException) -> NoReturn:
        """Raise the exception that corresponds to an error of the policy's code."""
        if isinstance(error, Overdue):
            TIME_BOUND.rest()
            raise PolicyFailed(TIME_BOUND.trouble) from None
        if isinstance(error, PolicyFailed):
            raise error
        if isinstance(error, KeyboardInterrupt) and not is_raised(error):
            raise error  # Ctrl-C while the policy thinks
        raise self.blamed(what, error) from error

    def blamed(self, what: str, error: BaseException) -> PolicyFailed:
        """Return the PolicyFailed for an error. The error's text may be computed by code of the policy that hangs."""
        place = self._culprit.line_of_traceback(error.__traceback__) or self.line_of(what)
        try:
            text = TIME_BOUND.call(what, self._culprit, told, (error,))
        except Overdue:
            return PolicyFailed(TIME_BOUND.trouble)
        except BaseException as other:
            return PolicyFailed(f"{type(error).__name__}, whose text is a {type(other).__name__} ({place})")
        return PolicyFailed(f"{text} ({place})")

    def failed(self, text: str, method: str) -> PolicyFailed:
        """Return a PolicyFailed with this text and the line where the method begins."""
        return PolicyFailed(f"{text} ({self.line_of(method)})")

    def line_of(self, method: str) -> str:
        """Return the file and line where that method of the policy begins."""
        return self._culprit.line_of_method(self._made, method)
