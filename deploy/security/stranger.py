"""A process that calls listeners without a token, as this user or as the user with the id UID.

`python -m schedbed.deploy.security.stranger [UID]` reads listeners from standard input as a JSON list and
prints one of their answers.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - sockets want it, and another user may not be able to read Python's files
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from schedbed.cluster.own_python import module_command, module_environment
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.security.listeners import Listener
from schedbed.deploy.security.strange_calls import (
    OPEN,
    REFUSES,
    UNKNOWN,
    connect,
    frames_refuse,
    http_refuses,
    ray_refuses,
    tls_refuses,
)

NOBODY = 65534
UNREACHABLE = "cannot be reached"
SAME_USER = "same user only"
"""The answer of a unix socket of Ray to its owner."""
FRAMES = "frames"
TLS = "TLS"
CALLS: Mapping[str, Callable[[Listener], str]] = {
    "gRPC": ray_refuses,
    "HTTP": http_refuses,
    TLS: tls_refuses,
    FRAMES: frames_refuse,
}


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """The answer of a listening socket to a client without a token. `way` is the protocol used, or empty."""

    way: str
    answer: str

    @property
    def is_right(self) -> bool:
        return self.answer in (REFUSES, UNREACHABLE, SAME_USER)


def try_all(listeners: Sequence[Listener], uid: int | None = None) -> list[ClientAnswer]:
    """Return all listeners' answers to a process without a token. Raises RunFailed if it fails.

    With `uid`, it runs as this user, which needs root.
    """
    environment = {name: value for name, value in module_environment().items() if "RAY_" not in name}
    told = subprocess.run(
        [*module_command(__name__), *([] if uid is None else [str(uid)])],
        input=json.dumps([asdict(each) for each in listeners]),
        capture_output=True,
        env=environment,
        text=True,
        check=False,
    )
    if told.returncode:
        lines = told.stderr.strip().splitlines() or ["it said nothing"]
        raise RunFailed(f"listeners could not be tried by a process of its own: {lines[-1]}")
    return [ClientAnswer(**each) for each in json.loads(told.stdout)]


def answer_of(listener: Listener, *, is_owner: bool) -> ClientAnswer:
    """Return a listener's answer to this process, which has no token."""
    try:
        if not listener.is_unix:
            return _answer(listener)
        with connect(listener):
            pass
        if frames_refuse(listener) == REFUSES:
            return ClientAnswer(FRAMES, REFUSES)
        return ClientAnswer("", SAME_USER if is_owner else OPEN)
    except OSError:
        return ClientAnswer("", UNREACHABLE)


def _answer(listener: Listener) -> ClientAnswer:
    for way, call in CALLS.items():
        answer = call(listener)
        if answer != UNKNOWN:
            return ClientAnswer(way, answer)
    return ClientAnswer("", UNKNOWN)


def main() -> int:
    """Read listeners from standard input, print their answers as JSON, and return the exit code."""
    listeners = [Listener(**each) for each in json.loads(sys.stdin.read())]
    is_owner = len(sys.argv) < 2
    if not is_owner:
        uid = int(sys.argv[1])
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    print(json.dumps([asdict(answer_of(listener, is_owner=is_owner)) for listener in listeners]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
