"""Calls of functions that may run user code, in a child process, with JSON.

The driver never runs user code itself. The child has no network and no capability. Its whole session is killed
when it has answered or takes too long.
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
CONFINED = "schedbed.tasks.own.confined"
HOW = "on this host, as your user, without network"
"""How user code runs in a child, which is said before it does."""


def ask(module: str, request: Mapping[str, Any], limit_s: float) -> Answer:
    """Run a module as a program, and return its answer. Raises BadInput for its error, silence or lateness."""
    answers, theirs = os.pipe()
    with os.fdopen(answers, "rb") as answer:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", CONFINED, module, str(theirs)],
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
    """Act as the module that `ask` runs: answer its request by `work`, or with the BadInput raised."""
    with os.fdopen(int(sys.argv[1]), "w") as out:
        os.set_inheritable(out.fileno(), False)
        try:
            answer = work(json.load(sys.stdin))
        except BadInput as error:
            answer = {"error": str(error)}
        json.dump(answer, out)
