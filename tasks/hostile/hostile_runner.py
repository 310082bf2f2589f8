"""Runs a hostile program as an attempt's application, under the same limits as any application."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.app_catalogue import add_app
from schedbed.tasks.attempt import run_attempt
from schedbed.tasks.context import NodeContext
from schedbed.tasks.hostile import disk_hogs, escapes, fork_bomb, hoarders, raw_sockets, spinners
from schedbed.tasks.hostile.orders import HostileWork, Program
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.specs import AttemptSpec

HOSTILE_APP = "hostile"
HOSTILE_RUNNER = "schedbed.tasks.hostile.hostile_runner:run_hostile"
PROGRAMS: Mapping[str, Program] = {
    "timer_off": spinners.timer_off,
    "waited_children": spinners.waited_children,
    "unwaited_children": spinners.unwaited_children,
    "shells": spinners.shells,
    "native_threads": spinners.native_threads,
    "other_group": escapes.other_group,
    "stolen_descriptors": escapes.stolen_descriptors,
    "fork_bomb": fork_bomb.fork_bomb,
    "private": hoarders.private,
    "shared": hoarders.shared,
    "shared_files": hoarders.shared_files,
    "children": hoarders.children,
    "buffered": disk_hogs.buffered,
    "direct": disk_hogs.direct,
    "synced": disk_hogs.synced,
    "cold_reads": disk_hogs.cold_reads,
    "send": raw_sockets.send,
    "receive": raw_sockets.receive,
}
_PARAMETERS = (
    Parameter("attack", "", "", "which of the programs", required=True),
    Parameter("seconds", 1.0, "s", "how long it goes on"),
    Parameter("size_bytes", 0, "B", "how much it wants at most"),
    Parameter("peer", "", "", "the address that it sends to"),
    Parameter("port", 0, "", "where the receiver listens"),
    Parameter("vanish", False, "", "ends without a word, so that no debt can be collected from it"),
)


def run_hostile(spec: AttemptSpec, node: NodeContext, limited: AbstractContextManager[None]) -> int:
    """Run an attempt of the hostile program that the parameter `attack` names."""
    add_app(_app(node.root / "attempts" / spec.attempt))
    return run_attempt(spec, node, limited)


def _app(folder: Path) -> App:
    def run_map(task: MapTask) -> None:
        orders = {name: value for name, value in task.params.items() if name in HostileWork.__slots__}
        PROGRAMS[task.params["attack"]](HostileWork(folder=folder, **orders))
        if task.params["vanish"]:
            os._exit(0)  # The attempt neither pays for its use nor reports.

    return App(
        name=HOSTILE_APP,
        summary="does not cooperate",
        input="none",
        reduces="any",
        run_map=run_map,
        parameters=_PARAMETERS,
    )
