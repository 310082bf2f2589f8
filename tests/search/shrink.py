"""Simplifies a failing test scenario while the same check fails: fewer jobs and nodes, smaller values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from tests.search.story import PARTS, Story, StoryFault, StoryJob, StoryNode

Fails = Callable[[Story], bool]


def shrink(story: Story, fails: Fails, *, tries: int = 600) -> Story:
    """Return a simplified test scenario for which `fails` is still true.

    No further simplification fails, unless `tries` candidates were used up before.
    """
    left = tries
    again = True
    while again:
        again = False
        for candidate in simpler(story):
            if left == 0:
                return story
            left -= 1
            if fails(candidate):
                story = candidate
                again = True
                break
    return story


def simpler(story: Story) -> Iterator[Story]:
    """Yield simplifications of a test scenario, the largest first; repeated simplification ends."""
    if story.alone:
        if story.steps > 1:
            yield replace(story, steps=story.steps // 2)
            yield replace(story, steps=story.steps - 1)
        return
    yield from _fewer(story)
    yield from _plainer(story)
    for part in ("jobs", "faults", "nodes"):
        items = getattr(story, part)
        for place, item in enumerate(items):
            for other in _SIMPLER[part](item):
                yield replace(story, **{part: (*items[:place], other, *items[place + 1 :])})


def _fewer(story: Story) -> Iterator[Story]:
    """Yield the test scenario without some faults, jobs or nodes.

    The first candidates lack half of the items, the last candidates a single item.
    """
    for part in ("faults", "jobs"):
        items = getattr(story, part)
        size = len(items)
        while size:
            for begin in range(0, len(items), size):
                yield replace(story, **{part: items[:begin] + items[begin + size :]})
            size //= 2
    for place in range(len(story.nodes) - 1, 0, -1):
        yield without_node(story, place)


def without_node(story: Story, place: int) -> Story:
    """Return the test scenario without one node. Later nodes are renamed, in the faults as well."""
    names = story.node_names()
    renamed = dict(zip(names[:place] + names[place + 1 :], names, strict=False))
    faults: list[StoryFault] = []
    for fault in story.faults:
        nodes = tuple(renamed[name] for name in fault.nodes if name in renamed)
        if nodes or not fault.nodes:
            faults.append(replace(fault, nodes=nodes))
    nodes = story.nodes[:place] + story.nodes[place + 1 :]
    return replace(story, nodes=nodes, faults=tuple(faults), replication=min(story.replication, len(nodes)))


def _plainer(story: Story) -> Iterator[Story]:
    """Yield the test scenario with one setting at its default, or with a simpler policy."""
    for each in fields(story):
        if (
            each.name not in (*PARTS, "seed", "policy", "replication")
            and getattr(story, each.name) != each.default
        ):
            yield replace(story, **{each.name: each.default})
    if story.replication > 1:
        yield replace(story, replication=1)
    for policy in _plainer_policies(story.policy):
        yield replace(story, policy=policy)


def _plainer_policies(policy: Any) -> Iterator[Any]:
    """Yield `fifo`, and the policy without one of its parameters or axes."""
    if policy == "fifo":
        return
    yield "fifo"
    if not isinstance(policy, Mapping):
        return
    axes = "order" in policy
    for name, value in policy.items():
        if axes and len(policy) > 1:
            yield {key: kept for key, kept in policy.items() if key != name}
        if not value:
            continue
        choices = {name: value} if not axes else value
        for part, parameters in choices.items() if isinstance(choices, Mapping) else ():
            for parameter in parameters or ():
                kept = {key: setting for key, setting in parameters.items() if key != parameter}
                yield {**policy, name: {part: kept} if axes else kept}


def _simpler_item(item: Any, halves: tuple[str, ...]) -> Iterator[Any]:
    """Yield the item with one field at its default value, or with one number halved."""
    for each in fields(item):
        value = getattr(item, each.name)
        if each.name in ("at_s", "kind", "nodes") or value == each.default:
            continue
        yield replace(item, **{each.name: each.default})
        if each.name in halves and value > 1 and value // 2 != value:
            yield replace(item, **{each.name: value // 2})


def _simpler_fault(fault: StoryFault) -> Iterator[StoryFault]:
    for name in fault.nodes if len(fault.nodes) > 1 else ():
        yield replace(fault, nodes=tuple(node for node in fault.nodes if node != name))
    for digits in (0, 1):
        at_s = round(fault.at_s, digits)
        until_s = None if fault.until_s is None else round(fault.until_s, digits)
        if (at_s, until_s) != (fault.at_s, fault.until_s) and (until_s is None or until_s > at_s > 0):
            yield replace(fault, at_s=at_s, until_s=until_s)


def _simpler_job(job: StoryJob) -> Iterator[StoryJob]:
    return _simpler_item(job, ("maps", "reduces", "map_s", "reduce_s", "submit_s", "input_mib"))


def _simpler_node(node: StoryNode) -> Iterator[StoryNode]:
    return _simpler_item(node, ("map_slots", "reduce_slots"))


_SIMPLER: dict[str, Callable[[Any], Iterator[Any]]] = {
    "jobs": _simpler_job,
    "faults": _simpler_fault,
    "nodes": _simpler_node,
}
