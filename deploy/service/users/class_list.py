"""Class lists: YAML files of users who may use a cluster, with quotas and digests of tokens.

`schedbed up --users FILE` gives the users of a class list access to a cluster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from schedbed.deploy.private_files import FILE_MODE
from schedbed.deploy.scenario.check import check_as
from schedbed.deploy.scenario.scalars import Count, Section, Size
from schedbed.deploy.scenario.yaml_file import load_file
from schedbed.deploy.service.users.user_book import TokenUser, UserBook, UserQuota, check_user_name
from schedbed.tasks.errors import BadInput

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
    """Return the users of the class list at `path`, or no users if the file does not exist.

    The returned users can be changed and then written with `write_class`.
    """
    return UserBook(read_class(path) if path.exists() else ())


def write_class(path: Path, book: UserBook) -> None:
    """Write the users of `book` to a class list file that only its owner can read.

    The file is replaced in one step, so that a reader sees either the old or the new list.
    """
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
    """Return a number of bytes as text such as `64MiB` if it is a whole number of MiB, else unchanged."""
    mib, rest = divmod(count, 2**20)
    return f"{mib}MiB" if mib and not rest else count
