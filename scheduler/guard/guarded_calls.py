"""Calls of a user's policy with a time limit, a call mark, and errors that name file and line.

A call is also aborted if it reads what a skipped heartbeat may have left outdated (`HeartbeatRead`).
"""

from __future__ import annotations

from collections.abc import Callable
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
        """Return a function that does the same as `call`."""
        number = CALL_RECORD.number(f"{what} ({self.line_of(what)})")

        def call(*arguments: Any) -> Any:
            CALL_RECORD.enter(number)
            try:
                try:
                    return TIME_BOUND.call(what, self._source, function, arguments)
                finally:
                    if self.watch.read:  # Also raise if the policy caught the exception.
                        raise HeartbeatRead
            except HeartbeatRead:
                raise
            except BaseException as error:  # Computing the error's text may run code of the policy.
                self._fail(what, error)
            finally:
                CALL_RECORD.leave()

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
