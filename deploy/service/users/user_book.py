"""The users who have a token for a cluster: their names, quotas and digests of tokens, but not the tokens."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from schedbed.deploy.scenario.check import check_as
from schedbed.deploy.scenario.scalars import Count, Section, Size
from schedbed.deploy.scenario.yaml_file import load_file
from schedbed.deploy.workspace import FILE_MODE
from schedbed.tasks.errors import BadInput

USER_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
USERS_MOST = 1_000
"""Largest number of users: each request is compared with all digests, which takes about 0.2 ms."""

LIMITS = ("jobs", "tasks", "input_bytes")
LIMIT_MOST = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """The quota of a user: the most jobs that have not ended, tasks of these jobs, and bytes of input."""

    jobs: int = 5
    tasks: int = 500
    input_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUser:
    """A user with a token. With `own_code`, applications that are not part of schedbed are allowed."""

    name: str
    token_sha256: str
    quota: UserQuota = UserQuota()
    own_code: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self) -> dict[str, Any]:
        """Return the user without the token's digest."""
        return {key: value for key, value in self.to_json().items() if key != "token_sha256"}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> TokenUser:
        """Undo `to_json`."""
        return TokenUser(**{**raw, "quota": UserQuota(**raw["quota"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """Changes of a user's settings, None for those that stay. A new token makes the old one invalid."""

    jobs: int | None = None
    tasks: int | None = None
    input_bytes: int | None = None
    own_code: bool | None = None
    new_token: bool = False

    def applied(self, user: TokenUser) -> TokenUser:
        """Return a copy of `user` with the changed quota and rights. The token is not changed."""
        new = {"jobs": self.jobs, "tasks": self.tasks, "input_bytes": self.input_bytes}
        limits = {key: value for key, value in new.items() if value is not None}
        own_code = user.own_code if self.own_code is None else self.own_code
        return replace(user, quota=replace(user.quota, **limits), own_code=own_code)


class UserBook:
    """Users with a token, found by name or token. Several threads may call the methods at the same time."""

    def __init__(self, users: Iterable[TokenUser] = ()) -> None:
        self._users = {user.name: user for user in users}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[TokenUser]:
        with self._lock:
            return iter(sorted(self._users.values(), key=lambda user: user.name))

    def find(self, name: str) -> TokenUser:
        """Return the user with the name `name`. Raises BadInput if there is no such user."""
        user = self._users.get(name)
        if user is None:
            raise BadInput(
                f"no user {name!r} has a token, expected one of {', '.join(self._users) or '(none)'}"
            )
        return user

    def who(self, token: str | bytes) -> TokenUser | None:
        """Return a token's user. Each comparison takes the same time, to reveal nothing about tokens."""
        shown = _digest(token)
        with self._lock:
            found = [user for user in self._users.values() if hmac.compare_digest(user.token_sha256, shown)]
        return found[0] if found else None

    def add(self, name: str, change: UserChange) -> str:
        """Add a user, and return the token; only its digest is stored. Raises BadInput if the name is bad or exists."""
        check_user_name(name)
        token = secrets.token_urlsafe(32)
        with self._lock:
            if name in self._users:
                raise BadInput(
                    f"user {name!r} is there already, expected: set {name} (with --new-token for a token)"
                )
            if len(self._users) >= USERS_MOST:
                raise BadInput(f"user {name!r}: a cluster has at most {USERS_MOST} users")
            self._users[name] = change.applied(TokenUser(name=name, token_sha256=_digest(token)))
        return token

    def set(self, name: str, change: UserChange) -> str | None:
        """Change the settings of a user. Return the new token if the change requests one, else None."""
        self.find(name)
        token = secrets.token_urlsafe(32) if change.new_token else None
        with self._lock:
            user = change.applied(self._users[name])
            self._users[name] = user if token is None else replace(user, token_sha256=_digest(token))
        return token

    def remove(self, name: str) -> None:
        """Remove a user. The user's token becomes invalid, but jobs that the user has submitted continue."""
        self.find(name)
        with self._lock:
            self._users.pop(name, None)


def change_of(request: Mapping[str, Any]) -> UserChange:
    """Convert a request to a change. Raises BadInput for an unknown key or a wrong value."""
    for key, value in request.items():
        if key in LIMITS:
            if value is not None and (type(value) is not int or not 0 <= value <= LIMIT_MOST):
                raise BadInput(f"{key}: {value!r} is not a whole number of 0 or more")
        elif key in ("own_code", "new_token"):
            if type(value) is not bool and not (value is None and key == "own_code"):
                raise BadInput(f"{key}: {value!r} is not true or false")
        else:
            raise BadInput(f"{key}: unknown, expected one of {', '.join((*LIMITS, 'own_code', 'new_token'))}")
    return UserChange(**request)


def check_user_name(name: str) -> str:
    """Return `name` if it is a valid name of a user. Raises BadInput otherwise."""
    if not USER_NAMES.fullmatch(name):
        raise BadInput(f"user {name!r}: expected letters, digits, dots, dashes and underscores, at most 64")
    return name


def _digest(token: str | bytes) -> str:
    """Return the SHA-256 digest: a slow hash adds no security to a token of 256 random bits."""
    return hashlib.sha256(
        token.encode(errors="surrogatepass") if isinstance(token, str) else token
    ).hexdigest()


# Class lists: YAML files of users who may use a cluster, with quotas and digests of tokens.
#
# `schedbed up --users FILE` gives the users of a class list access to a cluster.

HEAD = "# Users of a cluster, for: schedbed up SCENARIO --users {name}. Written by: schedbed users {name} add NAME\n"
DEFAULT = UserQuota()


class ListedUser(Section):
    """A user in a class list: the quota, the right to submit own code, and the digest of the token."""

    jobs: Count = DEFAULT.jobs
    tasks: Count = DEFAULT.tasks
    input: Size = DEFAULT.input_bytes
    own_code: bool = False
    token_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ClassList(Section):
    """The content of a class list: a dictionary from name to user."""

    users: dict[str, ListedUser] = {}


def read_class(path: Path) -> list[TokenUser]:
    """Return the users of the class list at `path`. Raises BadInput with the line of each error."""
    listed = check_as(ClassList, load_file(path), "users").users
    return [
        TokenUser(
            name=check_user_name(name),
            token_sha256=user.token_sha256,
            quota=UserQuota(jobs=user.jobs, tasks=user.tasks, input_bytes=user.input),
            own_code=user.own_code,
        )
        for name, user in listed.items()
    ]


def open_class(path: Path) -> UserBook:
    """Return the users of a class list, none without the file, to change and pass to `write_class`."""
    return UserBook(read_class(path) if path.exists() else ())


def write_class(path: Path, book: UserBook) -> None:
    """Write a class list that only its owner can read, in one step for its readers."""
    users = {
        user.name: {
            "jobs": user.quota.jobs,
            "tasks": user.quota.tasks,
            "input": _size(user.quota.input_bytes),
            "own_code": user.own_code,
            "token_sha256": user.token_sha256,
        }
        for user in book
    }
    temporary = path.with_name(f".{path.name}.new")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w") as file:
            file.write(HEAD.format(name=path.name) + yaml.safe_dump({"users": users}, sort_keys=False))
        temporary.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot write this class list: {error.strerror or error}") from None


def _size(count: int) -> int | str:
    """Return text such as `64MiB` for whole MiB, else the number."""
    mib, rest = divmod(count, 2**20)
    return f"{mib}MiB" if mib and not rest else count
