"""Calls of functions that may run user code, in a child process. Request and answer are JSON.

The driver (the process that runs a scenario) never runs user code itself. The child process has its own
session. All processes of the session are killed when the child has answered or takes too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_duration

Answer = dict[str, Any]


def ask(module: str, request: Mapping[str, Any], limit_s: float) -> Answer:
    """Run a module as a program in a child process, send it the request, and return the answer.

    Raises BadInput if the module raises BadInput, ends without an answer, or takes longer than `limit_s`
    seconds.
    """
    answers, theirs = os.pipe()
    with os.fdopen(answers, "rb") as answer:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        try:
            process.communicate(json.dumps(request).encode(), limit_s)
        except subprocess.TimeoutExpired:
            raise BadInput(f"it did not end within {format_duration(limit_s)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):  # The child may not have read the whole request.
                    process.stdin.close()
        return _read(answer.read(), process.returncode)


def _read(text: bytes, code: int) -> Answer:
    try:
        answer: Answer = json.loads(text)
    except ValueError:
        raise BadInput(f"its process ended with status {code} and no answer") from None
    if "error" in answer:
        raise BadInput(answer["error"])
    return answer


def answer_with(work: Callable[[Answer], Answer]) -> None:
    """Act as the module that `ask` runs: read the request, call `work` with it, and write the result.

    If `work` raises BadInput, the error is written instead.
    """
    with os.fdopen(int(sys.argv[1]), "w") as out:
        os.set_inheritable(out.fileno(), False)
        try:
            answer = work(json.load(sys.stdin))
        except BadInput as error:
            answer = {"error": str(error)}
        json.dump(answer, out)
