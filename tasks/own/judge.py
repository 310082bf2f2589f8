"""Checks an output with a user's class in a child process, `python -m schedbed.tasks.own.judge FD`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from schedbed.tasks.appkit.part_files import lines_of, records_of
from schedbed.tasks.own.child import Answer, Apart, answer_with, ask
from schedbed.tasks.own.class_source import ClassSource
from schedbed.tasks.own.user_class import TEXT, UserClass

LIMIT_S = 600.0
PIECE_BYTES = 2**20


def judge(
    source: ClassSource,
    params: dict[str, Any],
    folder: Path,
    data: Path | None,
    parts: Iterable[Path],
    apart: Apart | None = None,
) -> str | None:
    """Return the message of a user's check about the output files `parts`, or None.

    `folder` contains the application's files, `data` is the job's input. The check runs in a child process,
    or by `apart`, and may read the folder that contains them all. Raises BadInput if the check itself fails.
    """
    outputs = [str(part) for part in parts]
    room = Path(os.path.commonpath([folder, *outputs, *([] if data is None else [data])]))
    request = {
        "source": source.to_json(),
        "params": params,
        "folder": str(folder),
        "data": None if data is None else str(data),
        "parts": outputs,
    }
    return ask("schedbed.tasks.own.judge", request, LIMIT_S, room, apart)["wrong"]


def _judge(request: Answer) -> Answer:
    source = ClassSource.from_json(request["source"])
    user = UserClass(source, Path(request["folder"]), request["params"])
    records = _records(source.input or "text", request["data"])
    return {"wrong": user.judged(records, _pairs(request["parts"]))}


def _records(kind: str, data: str | None) -> Iterator[Any]:
    pieces = _pieces(data) if data is not None else iter(())
    if kind == "records":
        return records_of(pieces)
    return (line.decode(*TEXT) for line in lines_of(pieces))


def _pairs(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        for line in lines_of(_pieces(part)):
            key, _, value = line.decode(*TEXT).partition("\t")
            yield key, value


def _pieces(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


if __name__ == "__main__":
    answer_with(_judge)
