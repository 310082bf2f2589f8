"""The command `schedbed users`: manages the users of a running cluster or of a class list file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from schedbed.tasks.errors import BadInput

ACTIONS = ("add", "set", "remove", "list")
LIST_FILES = (".yaml", ".yml")
Json = dict[str, Any]


UserAction = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=f"[NAME|FILE.yaml] {'|'.join(ACTIONS)} [USER]...",
        help="Name of a running cluster, or a file for `schedbed up --users`; then the action, "
        "and the names of the users.",
    ),
]
JobsQuota = Annotated[
    int | None,
    typer.Option(min=0, max=1_000_000, help="Largest number of waiting and running jobs of each user."),
]
TasksQuota = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1_000_000,
        help="Largest number of maps and reduces in the waiting and running jobs of each user.",
    ),
]
OwnCode = Annotated[
    bool | None,
    typer.Option(
        "--own-code/--no-own-code",
        help="Whether the users may submit their own applications, that is, run their own code.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    app.command()(users)


def users(
    what: UserAction = None,
    jobs: JobsQuota = None,
    tasks: TasksQuota = None,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="SIZE",
            help="Largest amount of input data that each user may store in the cluster, such as 1GiB.",
        ),
    ] = None,
    own_code: OwnCode = None,
    new_token: Annotated[
        bool,
        typer.Option(
            "--new-token",
            help="With the action set: give each user a new token, and make the old one invalid.",
        ),
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Add users with a token and a quota to a running cluster, change or remove users, or list the users.

    A token is shown only once.

    Example: schedbed users lab add ana --jobs 3
    """
    from schedbed.tasks.units import parse_size

    where, action, names = _words(what or [])
    try:
        input_bytes = None if input_ is None else parse_size(input_)
    except ValueError as error:
        raise BadInput(f"--input {input_}: {error}") from None
    change = {"jobs": jobs, "tasks": tasks, "input_bytes": input_bytes, "own_code": own_code}
    change = {key: value for key, value in change.items() if value is not None}
    if new_token:
        change["new_token"] = True
    _check(action, names, change)
    if where is not None and where.endswith(LIST_FILES):
        _in_file(Path(where), action, names, change, json_)
    else:
        _on_cluster(where, action, names, change, json_)


def _words(what: Sequence[str]) -> tuple[str | None, str, list[str]]:
    """Return cluster or file (or None), action (by default `list`) and users. Raises BadInput."""
    at = next((place for place, word in enumerate(what[:2]) if word in ACTIONS), None)
    if at is None:
        if len(what) > 1:
            raise BadInput(f"users {' '.join(what)}: expected one of {', '.join(ACTIONS)} before the users")
        return (what[0] if what else None), "list", []
    return (what[0] if at else None), what[at], list(what[at + 1 :])


def _check(action: str, names: Sequence[str], change: Mapping[str, Any]) -> None:
    if action == "list":
        if names or change:
            raise BadInput("users list: expected nothing behind it")
    elif not names:
        raise BadInput(f"users {action}: expected the name of a user, such as ana")
    elif action == "remove" and change:
        raise BadInput("users remove: expected no options")
    elif action == "add" and "new_token" in change:
        raise BadInput("users add: a new user has a new token, expected no --new-token")
    elif action == "set" and not change:
        raise BadInput("users set: expected what to change, such as --jobs 3")


def _in_file(path: Path, action: str, names: Sequence[str], change: Json, as_json: bool) -> None:
    from schedbed.deploy.service.users.user_book import change_of, open_class, write_class

    if action != "add" and not path.exists():
        raise BadInput(f"{path}: no such class list, expected first: schedbed users {path} add NAME")
    book = open_class(path)
    wanted = change_of(change)
    if action == "list":
        _show([user.shown() for user in book], as_json)
        return
    acts: dict[str, Callable[[str], str | None]] = {
        "add": lambda name: book.add(name, wanted),
        "set": lambda name: book.set(name, wanted),
        "remove": book.remove,
    }
    told = {name: acts[action](name) for name in names}
    write_class(path, book)
    _tell([{"name": name, "token": token} for name, token in told.items() if token], None, as_json)


def _on_cluster(where: str | None, action: str, names: Sequence[str], change: Json, as_json: bool) -> None:
    from schedbed.deploy.service.client import connect

    cluster = connect(where)
    if action == "list":
        _show(cluster.users(), as_json)
        return
    told: list[Json] = []
    try:
        for name in names:
            if action == "remove":
                cluster.remove_user(name)
            else:
                told.append((cluster.add_user if action == "add" else cluster.set_user)(name, **change))
    finally:  # New tokens are shown even if a later user is refused.
        _tell([user for user in told if "token" in user], cluster.record.url, as_json)


def _tell(users: Sequence[Json], url: str | None, as_json: bool) -> None:
    """Print new tokens as JSON, or as shell commands that set a client's token and the address `url`."""
    from schedbed.deploy.service.client import CLUSTER_VARIABLE, TOKEN_VARIABLE

    if as_json:
        typer.echo(json.dumps({"users": users}))
        return
    address = "" if url is None else f"{CLUSTER_VARIABLE}={url} "
    for user in users:
        typer.echo(f"{user['name']}: export {address}{TOKEN_VARIABLE}={user['token']}")
    if users:
        typer.echo("note: give each user their line; a token is not shown again", err=True)


def _show(users: Sequence[Json], as_json: bool) -> None:
    from rich.console import Console

    from schedbed.deploy.service.show import users_table

    if as_json:
        typer.echo(json.dumps({"users": users}))
    elif users:
        Console().print(users_table(users))
    else:
        typer.echo("no user has a token")
