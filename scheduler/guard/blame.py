"""Lookup of the file and line in a user's policy that caused an error or a slow call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from schedbed.scheduler.guard.read_only import Proxy, label

TEXT_MAX = 300
"""The maximum number of characters of an error's text in a message."""


class PolicySource:
    """A policy's source, with files beside it, in which the line that failed or is slow is found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._folder = str(Path(file).parent)

    @staticmethod
    def of_class(made: type) -> PolicySource:
        """Return the source code of the policy class `made`, which a Python program passed directly."""
        try:
            return PolicySource(inspect.getfile(made))
        except (TypeError, OSError):  # For example, a class defined in an interactive session.
            return PolicySource(next((code.co_filename for code in _codes(made)), "<unknown>"))

    def _owns(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        if file == self.file:
            return True
        ours = str(frame.f_globals.get("__name__", "")).startswith("schedbed.")
        beside = file.startswith(f"{self._folder}/") and "site-packages" not in file
        return beside and not ours and not file.startswith(sys.prefix)

    def line_of_traceback(self, traceback: TracebackType | None) -> str | None:
        """Return the innermost line in the policy's code, such as `mine.py, line 7`, or None."""
        found = None
        while traceback is not None:
            if self._owns(traceback.tb_frame):
                found = _line(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        return found

    def line_of_thread(self, thread: int) -> str | None:
        """Return the line of the policy's code that the thread with this id executes now, or None."""
        frame = sys._current_frames().get(thread)
        while frame is not None:
            if self._owns(frame):
                return _line(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return None

    def line_of_method(self, made: type, name: str) -> str:
        """Return where a method begins, or the class if the method is in another file."""
        code = getattr(getattr(made, name, None), "__code__", None)
        if isinstance(code, CodeType) and code.co_filename == self.file:
            return _line(self.file, code.co_firstlineno)
        first = min(
            (code.co_firstlineno for code in _codes(made) if code.co_filename == self.file), default=0
        )
        return _line(self.file, first or 1)


def told(error: BaseException) -> str:
    """Return the error as one line of at most TEXT_MAX characters."""
    text = " ".join(f"{type(error).__name__}: {_words(error)}".split()).removesuffix(":")
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def _words(error: BaseException) -> object:
    """Return the error, or a clearer text if a policy read an attribute that a read-only proxy lacks."""
    if type(error) is AttributeError and isinstance(error.obj, Proxy):
        return f"a policy's {label(error.obj)} has no {error.name!r}"
    return error


def _line(file: str, number: int) -> str:
    return f"{Path(file).name}, line {number}"


def _codes(made: type) -> Iterator[CodeType]:
    for value in vars(made).values():
        code: Any = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            yield code
