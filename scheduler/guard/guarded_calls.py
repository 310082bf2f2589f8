"""Calls of a user's policy with a time limit, a call mark, and errors that name file and line.

A call is also aborted if it reads what a skipped heartbeat may have left outdated (`HeartbeatRead`).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, NoReturn

from schedbed.scheduler.guard.blame import PolicySource, told
from schedbed.scheduler.guard.call_record import CALL_RECORD
from schedbed.scheduler.guard.time_bound import TIME_BOUND, Overdue
from schedbed.scheduler.policy import HeartbeatRead, HeartbeatWatch, PolicyFailed


class Guard:
    """Calls one policy's code, the class `made`, with a time limit and errors that name file and line."""

    def __init__(self, source: PolicySource, made: type = object) -> None:
        self._source = source
        self._made = made
        self.watch = HeartbeatWatch()
        TIME_BOUND.watch()

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the policy. Raises PolicyFailed if it fails or takes too long."""
        return self.wrap(what, function)(*arguments)

    def wrap(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same as `call`, faster, without helper functions."""
        bound, mark, now, watch = TIME_BOUND, CALL_RECORD, (what, self._source), self.watch
        number = mark.number(f"{what} ({self.line_of(what)})")

        def call(*arguments: Any) -> Any:
            try:
                memory = mark.memory
                bound.thread = thread = get_ident()
                if memory is not None:  # Same as `CallRecord.enter`.
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
                    if memory is not None:  # Same as `CallRecord.leave`.
                        memory[1] = mark.count & 254
                    if bound.interrupted:
                        bound.settle()
                    if watch.read:  # Also raise if the policy caught the exception.
                        raise HeartbeatRead
            except HeartbeatRead:
                raise
            except BaseException as error:
                mark.enter(number)  # Computing the error's text may run code of the policy.
                try:
                    self._fail(what, error)
                finally:
                    mark.leave()

        return call

    def _fail(self, what: str, error: BaseException) -> NoReturn:
        """Raise PolicyFailed for a call's error, or a KeyboardInterrupt unchanged."""
        if isinstance(error, Overdue):
            TIME_BOUND.rest()
            raise PolicyFailed(TIME_BOUND.trouble) from None
        if isinstance(error, PolicyFailed):
            raise error
        if isinstance(
            error, KeyboardInterrupt
        ):  # Ctrl-C during the call; a policy that raises it ends the run, too.
            raise error
        raise self.blamed(what, error) from error

    def blamed(self, what: str, error: BaseException) -> PolicyFailed:
        """Return a PolicyFailed with the line that failed. The policy may define the text, so it has a time limit."""
        place = self._source.line_of_traceback(error.__traceback__) or self.line_of(what)
        try:
            text = TIME_BOUND.call(what, self._source, told, (error,))
        except Overdue:
            return PolicyFailed(TIME_BOUND.trouble)
        except BaseException as other:
            return PolicyFailed(f"{type(error).__name__}, whose text is a {type(other).__name__} ({place})")
        return PolicyFailed(f"{text} ({place})")

    def failed(self, text: str, method: str) -> PolicyFailed:
        """Return a PolicyFailed with the method's line."""
        return PolicyFailed(f"{text} ({self.line_of(method)})")

    def line_of(self, method: str) -> str:
        """Return where a method begins, such as `mine.py, line 7`."""
        return self._source.line_of_method(self._made, method)
