"""The modules that are mutated, and the few functions and lines that are excluded, each with the reason."""

from __future__ import annotations

_CORE = "schedbed.scheduler.core"
MODULES: tuple[str, ...] = (
    *(f"{_CORE}.{name}" for name in ("core", "ledger", "core_tables", "entities", "index")),
    "schedbed.cluster.tracker",
    "schedbed.scheduler.driver",
    *(f"schedbed.cluster.blocks.{name}" for name in ("blockmanager", "blockmap", "replication", "placement")),
    "schedbed.scheduler.policy",
    *(
        f"schedbed.scheduler.order.{name}"
        for name in (
            "fifo",
            "fair",
            "capacity",
            "pools",
            "preemption",
            "sorted_keys",
        )
    ),
    *(f"schedbed.scheduler.locality.{name}" for name in ("delay", "greedy", "split")),
    *(f"schedbed.scheduler.admission.{name}" for name in ("slots", "containers")),
    "schedbed.scheduler.policies.late",
    "schedbed.scheduler.models.time_left",
)
"""The modules whose functions are mutated."""

READING = "reads what a user has written, which no story gets wrong; tests/scheduler/registry"
SHOWN = "is asked by audits and pages only"
LIVE = "what only live clusters ask for; tests/scheduler/test_driver.py, tests/cluster/blocks"
LAYOUTS = "layouts of experiments, not of stories; tests/cluster/blocks/test_placement.py"
WORDS = "makes the words of a reason"
_APART = {
    READING: (
        *(f"order.fair:{name}" for name in ("pools", "_check")),
        *(f"order.capacity:{name}" for name in ("queues", "_queue_settings", "_within_100", "_check")),
    ),
    SHOWN: (
        "core.index:TaskIndex.holds",
        "core.core:Core.check_tables",
        "core.core:Core.status",
        *(
            f"core.core:{name}"
            for name in ("status", "_job", "_node", "check_tables", "_check_node", "_check_job")
        ),
        *(f"core.core:{name}" for name in ("_check_stage", "_check_parts", "_check_task", "_check_totals")),
        "core.entities:Node.running_maps",
        "core.entities:Node.running_reduces",
        "core.entities:Attempt.phase",
        "order.fair:Fair.is_plain",
        "order.capacity:Capacity.is_plain",
    ),
    LIVE: (
        *(f"driver:Driver.{name}" for name in ("_add", "_move_block", "blocks_of", "report")),
        "driver:Driver.all_ended",
        "core.core:Core.active_jobs",
        "order.capacity:Capacity.closed_queues",
        "core.core:Core.node_lost",
        *(f"blocks.blockmanager:BlockManager.{name}" for name in ("report_bad", "settling", "close")),
    ),
    LAYOUTS: (
        *(f"blocks.placement:{name}" for name in ("place_even", "hot_nodes", "place_preferred")),
        "blocks.blockmanager:BlockManager._prefer",
    ),
    WORDS: (
        *(f"order.capacity:Capacity.{name}" for name in ("note", "describe", "_amount")),
        "locality.split:_place",
    ),
}
LEFT_OUT: dict[str, str] = {
    f"schedbed.{'cluster' if name.startswith('blocks') else 'scheduler'}.{name}": why
    for why, names in _APART.items()
    for name in names
}
"""Functions, by module and name, that are not mutated, and why."""
