"""Calls of functions that may run user code, in a child process, with JSON.

The driver never runs user code itself. The child is confined (`tasks.own.confined`), or a container. All of its
processes are killed when it has answered or takes too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_duration

Answer = dict[str, Any]
Apart = Callable[[str, bytes, Path, float], bytes]
"""Runs a module in a container: takes its name, request, folder and time limit in s, returns its answer."""
CONFINED = "schedbed.tasks.own.confined"
TRUST = "SCHEDBED_TRUST_CODE"
"""The environment variable that `--trust-code` sets."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONHASHSEED")
"""The environment variables that confined code gets."""


def how_code_runs(what: str, instead: str) -> str:
    """Return how a child runs user code, to be told before it does.

    Raises BadInput, with how to do without `what` runs the code, if it cannot be confined here and is not trusted.
    """
    if os.environ.get(TRUST):
        return "on this host, as your user, with your files"
    try:
        ask("", {}, 60.0)
    except BadInput as error:
        raise BadInput(
            f"{what} cannot be confined on this host ({error}), expected --trust-code, which lets it run as your "
            f"user; {instead}"
        ) from None
    user = "as your user" if os.getuid() else "as nobody"
    return (
        f"on this host, {user}, without network, reading no home folder and writing only to a /tmp of its own"
    )


def ask(
    module: str,
    request: Mapping[str, Any],
    limit_s: float,
    folder: Path | None = None,
    apart: Apart | None = None,
) -> Answer:
    """Run a module, which may read `folder`, as a confined program or by `apart`, and return its answer.

    Raises BadInput for its error, silence or lateness.
    """
    if folder is not None:
        _let_others_read(folder)
    if apart is not None and folder is not None:
        return _answer(apart(module, json.dumps(request).encode(), folder, limit_s), 0)
    trusted = bool(os.environ.get(TRUST))
    answers, theirs = os.pipe()
    with os.fdopen(answers, "rb") as answer:
        try:
            shown = [] if folder is None else [str(folder)]
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", CONFINED, module, str(theirs), str(int(trusted)), *shown],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs,),
                start_new_session=True,
                env=None if trusted else {key: os.environ[key] for key in KEPT if key in os.environ},
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
        return _answer(answer.read(), process.returncode)


def _let_others_read(folder: Path) -> None:
    """Let the user nobody, or that of a container, read a folder. The folders above it stay closed."""
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        wanted = mode | 0o444 | (0o111 if path.is_dir() or mode & 0o100 else 0)
        if wanted != mode:
            path.chmod(wanted)


def _answer(text: bytes, code: int) -> Answer:
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
        print(json.dumps(answer), file=out)  # A container's output is read by lines.
