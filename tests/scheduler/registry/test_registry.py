"""The text that selects a policy (SPEC) in all its forms, policies in users' files, and errors in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import AXES, POLICIES, build_policy, reads_store
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node


@pytest.mark.parametrize(
    "spec",
    [
        "delay:node_wait=3s,rack_wait=500ms",
        " delay : node_wait = 3s , rack_wait = 0.5 ",
        {"delay": {"node_wait": "3s", "rack_wait": 0.5}},
        "order=fair,locality=delay:node_wait=3s+rack_wait=500ms,admission=slots",
        {"order": "fair", "locality": {"delay": {"node_wait": 3, "rack_wait": "500ms"}}},
        {"order": "fair", "locality": "delay:node_wait=3s+rack_wait=500ms"},
    ],
)
def test_one_policy_in_many_words(spec: Any):
    """Different forms of a SPEC build the same policy.

    Its durations are multiplied by the scenario's scale.
    """
    policy = build_policy(spec, scale=0.5)
    assert isinstance(policy, Composed) and isinstance(policy.order, Fair)
    assert isinstance(policy.locality, Delay)
    assert (policy.locality.node_wait_s, policy.locality.rack_wait_s) == (1.5, 0.25)


def test_the_timeouts_of_pools_are_times_of_the_scenario():
    spec = {"fair": {"pools": {"ana": {"min_share": 1, "min_share_timeout": "60s"}}}}
    order: Any = build_policy(spec, scale=0.1)
    assert order.order.settings_of("ana").min_share_timeout_s == pytest.approx(6.0)


def test_defaults_and_scale():
    """Missing parameters have their scaled defaults, and missing axes have the default choice."""
    policy = build_policy("delay", scale=0.1)
    assert isinstance(policy, Composed) and isinstance(policy.locality, Delay)
    assert policy.locality.node_wait_s == pytest.approx(0.5)
    policy = build_policy("admission=containers")
    assert isinstance(policy, Composed) and isinstance(policy.admission, Containers)
    assert build_policy({"fair": None})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fiar", "policy 'fiar' is unknown, did you mean fair?"),
        ("quincy", "policy 'quincy' is unknown; there are: fifo, fair, delay"),
        ("", "expected a name"),
        (":", "expected a name"),
        ("delay:node_wiat=3s", "parameter 'node_wiat' is unknown, did you mean node_wait?"),
        ("delay:node_wait=3 parsec", "node_wait: '3 parsec' is not a duration"),
        ("delay:node_wait=-3s", "node_wait: '-3s' is not a duration"),
        ("delay:node_wait", "'node_wait' is not key=value"),
        ("delay:node_wait=1s,node_wait=2s", "node_wait is given twice"),
        ("fifo:node_wait=1s", "parameter 'node_wait' is unknown; there are none"),
        ("fair:pool_by=color", "pool_by: 'color' is not one of user, queue"),
        ("fair:pools=3", "(YAML only)"),
        ({"fair": {"pools": {"ana": 3}}}, "pool ana: 3 is not a mapping"),
        ({"fair": {"pools": {"ana": {"wieght": 3}}}}, "pool ana: 'wieght' is unknown, did you mean weight?"),
        ({"fair": {"pools": {"ana": {"weight": 0}}}}, "pool ana: weight: 0 is not a number above 0"),
        (
            {"fair": {"pools": {"ana": {"min_share": 1.5}}}},
            "pool ana: min_share: 1.5 is not a number of slots",
        ),
        (
            {"fair": {"pools": {"ana": {"inside": "lifo"}}}},
            "pool ana: inside: 'lifo' is not one of fair, fifo",
        ),
        ("order=fair,order=fifo", "order has two owners, fair and fifo"),
        ("order=delay", "order 'delay' is unknown; there are: fifo, fair"),
        ("order=fair,color=red", "'color=red' is not one of order=..., locality=..., admission=..."),
        ("order=fair:min_share_timeout=1s,admission=containers", "pre-emption frees single slots"),
        ("order=fair:min_share_timeout=1s,admission=gang", "needs admission=slots"),
        ({"fair": {}, "delay": {}}, "expected a name"),
        ({"fair": 3}, "is not a name or"),
        ({"order": 3}, "order: 3 is not a name or"),
        (7, "policy 7: expected a name"),
        ("nowhere.py", "expected path/to/file.py:ClassName"),
        ("nowhere.py:Mine", "there is no file nowhere.py"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(spec: Any, message: str):
    """The error of a wrong SPEC is one line: the name, the parameter, the value and the expected values."""
    with pytest.raises(BadInput) as error:
        build_policy(spec)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


MINE = '''
from schedbed.scheduler.hooks import Proposal
from schedbed.tasks.specs import TaskKind


class Mine:
    """The youngest job first."""

    def __init__(self, greet="hi", wait=1.0, many=2, loud=False):
        self.given = (greet, wait, many, loud)

    def decide(self, view, node, kind):
        if not node.free_slots(kind):
            return None
        for job in reversed(list(view.jobs.values())):
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, f"youngest {self.given}")
        return None


class NoPolicy:
    pass
'''


def _reason(spec: str | dict[str, Any], scale: float = 1.0) -> str:
    """Return the reason with which the policy starts the only map of a job."""
    world = World(build_policy(spec, scale=scale), [node("n1")])
    world.submit(job("job_0001", 1)).run()
    return next(row.reason for row in world.tape.decisions if row.kind == "map")


def test_a_users_own_policy_is_one_class_in_one_file(tmp_path: Path):
    """A user's policy is a class in a file that needs only the method `decide`.

    Parameters of the SPEC are passed to its constructor.
    """
    path = tmp_path / "my own.py"
    path.write_text(MINE)
    assert (
        _reason(f"{path}:Mine:greet=you,wait=3s,many=7,loud=true", scale=0.5)
        == "youngest ('you', 1.5, 7, True)"
    )
    assert _reason({f"{path}:Mine": {"many": 5}}) == "youngest ('hi', 1.0, 5, False)"
    world = World(build_policy(f"{path}:Mine"), [node("n1")])
    world.submit(job("job_0001", 2, reduces=1)).submit(job("job_0002", 1, submit_s=1)).run()
    assert [row.job for row in world.tape.decisions if row.kind == "map"] == [
        "job_0001",
        "job_0002",
        "job_0001",
    ]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (MINE, "Mien", "no class 'Mien' with a decide method, did you mean Mine?"),
        (MINE, "NoPolicy", "no class 'NoPolicy' with a decide method"),
        (MINE, "Proposal", "no class 'Proposal' with a decide method"),
        (MINE, "Mine:color=red", "Mine refused its parameters: TypeError"),
        ("import nothing_like_this", "Mine", "cannot be loaded: ModuleNotFoundError"),
        ("def broken(:", "Mine", "cannot be loaded: SyntaxError"),
    ],
)
def test_a_broken_policy_file_is_one_line(tmp_path: Path, text: str, name: str, message: str):
    """Python's error in a policy file becomes an error of one line."""
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        build_policy(f"{path}:{name}")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_every_listed_policy_can_be_built_from_its_own_defaults():
    """Each listed policy can be built from its defaults, and each parameter has a description."""
    for name, named in POLICIES.items():
        assert build_policy(name)
        for parameter in named.parameters:
            if parameter.name != "pools":
                assert build_policy({name: {parameter.name: parameter.default}})
            assert parameter.doc and parameter.default
        assert named.summary and named.paper
    for axis, choices in AXES.items():
        for name in choices:
            assert build_policy(f"{axis}={name}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["fair", "pools", "order", "delay", "a"]), inner)
    ),
    max_leaves=8,
)


@given(json_values | st.text(alphabet="fairdelyonw_t=:,+0123s.p "))
def test_garbage_is_bad_input_or_a_policy(spec: Any):
    """A random SPEC builds a policy or raises `BadInput`, never another exception."""
    try:
        assert hasattr(build_policy(spec), "decide")
    except BadInput as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("spec", "reads"),
    [
        ("ras", True),
        ("ras:profiles=none", False),
        ({"aria": {"profiles": {}}}, False),
        ("order=fair,admission=fgcs", True),
        ("order=fair,admission=fgcs:profiles=store", True),
        ("fair", False),
        ("mine.py:Mine", False),
    ],
)
def test_who_reads_the_profile_store(spec: Any, reads: bool) -> None:
    assert reads_store(spec) is reads
