"""Tests wrong scenarios: the exact message, all mistakes of a file at once, and never another exception."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.deploy.scenario.check import check
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.yaml_file import apply_set, from_values, load_text
from schedbed.tasks.errors import BadInput

GOOD = """cluster: {nodes: 4, racks: 2}
blocks: {replication: 2}
workload:
  jobs:
    - {name: burn, app: synthetic, maps: 2, map: {cpu: 3s}}
faults: [{at: 1s, kill: n1}]
"""


def complaint(tmp_path, text: str, *sets: str, **options) -> str:
    """Return the error message for a scenario in YAML, without the path of the temporary folder.

    `sets` are changes as with `--set`, `options` are further arguments of `resolve`.
    """
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        resolve(path, sets=sets, **options)
    return str(caught.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "cpu: 3s",
            "cpu: 30 parsecs",
            "s.yaml:5: workload.jobs[0].map.cpu: '30 parsecs' is not a duration (such as 500ms, 5s, 10m, 2h)",
        ),
        (
            "maps: 2",
            "map_count: 2",
            "s.yaml:5: workload.jobs[0].map_count: unknown key, did you mean 'count'?",
        ),
        ("nodes: 4", "nodes: 0", "s.yaml:1: cluster.nodes: 0 is not at least 1"),
        ("nodes: 4", "nodes: 100001", "s.yaml:1: cluster.nodes: more than 100,000 nodes"),
        (
            "maps: 2",
            "count: 1001, maps: 10000",
            "s.yaml:4: workload.jobs: more than 10,000,000 tasks",
        ),
        ("racks: 2", "racks: 5", "s.yaml:1: cluster.racks: 5 racks for 4 nodes, expected at most one a node"),
        (
            "replication: 2",
            "replication: 5",
            "s.yaml:2: blocks.replication: 5 replicas of a block need as many nodes, there are 4",
        ),
        (
            "replication: 2",
            "dynamic: more",
            "s.yaml:2: blocks.dynamic: 'more' is not one of 'none', 'dare', 'scarlett' or 'cdrm'",
        ),
        (
            "replication: 2",
            "dynamic: {scarlett: {epoch: 0s}}",
            "s.yaml:2: blocks.dynamic.scarlett.epoch: '0s' is not above 0",
        ),
        (
            "replication: 2",
            "dynamic: {cdrm: {availability: 1}}",
            "s.yaml:2: blocks.dynamic.cdrm.availability: 1 is not below 1.0",
        ),
        ("replication: 2", "dynamic: {dare: {p: 2}}", "s.yaml:2: blocks.dynamic.dare.p: 2 is not at most 1"),
        ("kill: n1", "kill: n9", "s.yaml:6: faults[0].kill: no node 'n9', the nodes are n1 to n4"),
        (
            "kill: n1",
            "kill: n1, freeze: n2",
            "s.yaml:6: faults[0]: expected exactly one of kill, freeze, slow, partition, delay, loss, lose_requests, "
            "lose_replies, fill_disk, kill_attempt, corrupt_replica, delete_replica, kill_tracker, kill_host, "
            "crash, restart",
        ),
        ("at: 1s", "at: -1s", "s.yaml:6: faults[0].at: '-1s' is not a duration (such as 500ms, 5s, 10m, 2h)"),
        (
            "app: synthetic",
            "app: wordcunt",
            "s.yaml:5: workload.jobs[0].app: unknown application 'wordcunt', did you mean 'wordcount'?",
        ),
        (
            "cpu: 3s",
            "cpu: 3s, memory: 1GiB",
            "s.yaml:5: workload.jobs[0].map.memory: a task of 1.0 GiB fits no node, the largest has 512.0 MiB",
        ),
        (
            "cpu: 3s",
            "vcores: 3",
            "s.yaml:5: workload.jobs[0].map.vcores: a task of 3 vcores fits no node, the largest has 2 cores",
        ),
        (
            "faults:",
            "speculation: soon\nfaults:",
            "s.yaml:6: speculation: 'soon' is not one of none, late, spark, {late: {key: value}}",
        ),
        (
            "faults:",
            "speculation: {late: {cap: 2}}\nfaults:",
            "s.yaml:6: speculation: speculation late: cap: 2 is not a share (0 to 1)",
        ),
        ("faults:", "cluster: 3\nfaults:", "s.yaml:6: cluster: given twice (first on line 1)"),
        (
            "[{at",
            "[{at: }, {at",
            "s.yaml:6: faults[0].at: None is not a duration (such as 500ms, 5s, 10m, 2h)",
        ),
        ("{name: burn,", "[name: burn,", None),
    ],
)
def test_one_clear_line(tmp_path, old, new, line):
    told = complaint(tmp_path, GOOD.replace(old, new, 1))
    assert told == line or (line is None and told.startswith("s.yaml:5: not YAML: "))


def test_all_faults_at_once_in_the_order_of_the_file(tmp_path):
    text = GOOD.replace("nodes: 4", "nodes: four").replace("3s", "3 years").replace("n1", "n1, for: never")
    assert [line.partition(": ")[0] for line in complaint(tmp_path, text).splitlines()] == [
        "s.yaml:1",
        "s.yaml:5",
        "s.yaml:6",
    ]


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "cluster.node.core_speed=2",
            "--set cluster.node.core_speed=2: cluster.node.core_speed: 2 is not at most 1",
        ),
        (
            "workload.jobs.0.deadline=0s",
            "--set workload.jobs.0.deadline=0s: workload.jobs[0].deadline: a deadline of 0 is not possible, "
            "expected above 0, from the submission on",
        ),
        (
            "blocks.placement={skewed: 0.2, by: 3}",
            "--set blocks.placement={skewed: 0.2, by: 3}: blocks.placement.by: unknown key, "
            "expected one of skewed",
        ),
        (
            "workload.jobs.0.input={generate: text, size: 1MiB, sed: 3}",
            "--set workload.jobs.0.input={generate: text, size: 1MiB, sed: 3}: "
            "workload.jobs[0].input.sed: unknown key, did you mean 'seed'?",
        ),
        (
            "cluster.node.disk={rate: 40MB/s, seek: 11}",
            "--set cluster.node.disk={rate: 40MB/s, seek: 11}: cluster.node.disk.seek: 11 is not at most 10",
        ),
        (
            "cluster.node.disk={seek: 0.1}",
            "--set cluster.node.disk={seek: 0.1}: cluster.node.disk.rate: missing",
        ),
        (
            "cluster.node.memory={size: 1GiB, paging: -1}",
            "--set cluster.node.memory={size: 1GiB, paging: -1}: cluster.node.memory.paging: -1 is not at least 0",
        ),
        (
            "cluster.node.memory={size: 1GiB, pages: 1}",
            "--set cluster.node.memory={size: 1GiB, pages: 1}: cluster.node.memory.pages: unknown key, "
            "expected one of size, paging",
        ),
        (
            "cluster.node.foreground=0.96",
            "--set cluster.node.foreground=0.96: cluster.node.foreground: 0.96 is not at most 0.95",
        ),
        (
            "cluster.node.foreground={at: 5s}",
            "--set cluster.node.foreground={at: 5s}: cluster.node.foreground.cpu: missing",
        ),
        (
            "cluster.node.foreground=[{at: 5s, cpu: 0.5}, {at: 5s, cpu: 0}]",
            "--set cluster.node.foreground=[{at: 5s, cpu: 0.5}, {at: 5s, cpu: 0}]: cluster.node.foreground: "
            "5s comes after 5s, expected times that rise",
        ),
        (
            "cluster.nodes=[{shared_disk: a}, {shared_disk: a, disk: 1MB/s}]",
            "s.yaml:1: cluster.node.shared_disk: n1 and n2 share a and declare different disks, "
            "expected the same rate and seek",
        ),
        (
            "workload.jobs.4.maps=2",
            "--set workload.jobs.4.maps=2: 4 is not an index of this list of 1 (counted from 0)",
        ),
        (
            "workload.jobs.0.app.x=2",
            "--set workload.jobs.0.app.x=2: 'x' cannot be set inside 'synthetic', which is not a mapping",
        ),
        ("nodes", "--set nodes: expected KEY=VALUE, such as cluster.node.core_speed=0.2"),
        ("policies=[nobody]", None),
    ],
)
def test_set_names_itself(tmp_path, setting, line):
    told = complaint(tmp_path, GOOD, setting)
    assert told == line or (line is None and told.startswith("--set policies=[nobody]: policies[0]: "))


def test_options_name_themselves(tmp_path):
    assert complaint(tmp_path, GOOD, scale=-1) == "--scale -1: scale: -1 is not at least 1e-06"
    assert complaint(tmp_path, GOOD, policies=["nosuch"]).startswith("--policy: policies[0]: ")
    assert complaint(tmp_path, GOOD, nodes=1).splitlines()[0].startswith("s.yaml:1: cluster.racks: ")
    groups = GOOD.replace("nodes: 4", "nodes: [{count: 4}]")
    assert complaint(tmp_path, groups, nodes=9).startswith("--nodes 9: cluster.nodes is a list of groups")


def test_application_parameters_are_checked(tmp_path):
    def told(job: str) -> str:
        return complaint(tmp_path, f"workload: {{jobs: [{job}]}}")

    text = "input: {generate: text, size: 1MiB}"
    assert "workload.jobs[0].params: grep needs the parameter pattern" in told(f"{{app: grep, {text}}}")
    assert "'(' is not a regular expression" in told(f"{{app: grep, {text}, params: {{pattern: '('}}}}")
    assert "params.sample: unknown parameter of pi, did you mean 'samples'?" in told(
        "{app: pi, params: {sample: 3}}"
    )
    assert "params.samples: 'many' is not a whole number" in told("{app: pi, params: {samples: many}}")
    records = "{generate: records, size: 1MB}"
    assert "params.keep_map: 1.5 is not a number of 0 to 1" in told(
        f"{{app: select, input: {records}, params: {{keep_map: 1.5}}}}"
    )
    assert "params.start: 0 is not a number of 1 to" in told("{app: bbp, params: {start: 0}}")
    assert "input.generate: bayes reads documents, not records" in told(f"{{app: bayes, input: {records}}}")
    assert "twitter needs an input: a file or {generate: edges, size: 1GiB}" in told("{app: twitter}")
    assert "pi reads no input" in told(f"{{app: pi, {text}}}")
    assert "wordcount needs an input" in told("{app: wordcount}")
    assert "sort reads records, not text" in told(f"{{app: sort, {text}}}")
    assert "only synthetic jobs are told their costs" in told(f"{{app: wordcount, {text}, map: {{cpu: 3s}}}}")


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(BadInput, match=r"nope.yaml: cannot read this scenario: No such file"):
        resolve(tmp_path / "nope.yaml")
    with pytest.raises(BadInput, match="cannot read this scenario: Is a directory"):
        resolve(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(BadInput, match="byte 6 is not UTF-8"):
        resolve(tmp_path / "b.yaml")
    job = "workload: {jobs: [{app: wordcount, input: nope.txt}]}"
    assert "'nope.txt' is no file that can be read" in complaint(tmp_path, job)
    trace = "workload: {trace: nope.tsv}"
    assert "no trace file 'nope.tsv'" in complaint(tmp_path, trace)
    assert "give its path with --set workload.trace=PATH" in complaint(tmp_path, trace)


yaml_like = st.text(
    alphabet=string.ascii_lowercase + string.digits + " :-[]{},\n&*!|>'\"#%@\t\0é", max_size=80
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["3s", "64MiB", "n1", "none", "hdfs", "fifo", "pi", "synthetic", "text"]),
)
KEYS = [
    *(
        "name",
        "seed",
        "scale",
        "cluster",
        "nodes",
        "racks",
        "node",
        "cores",
        "memory",
        "blocks",
        "size",
        "replication",
    ),
    *(
        "placement",
        "skewed",
        "workload",
        "jobs",
        "trace",
        "app",
        "input",
        "generate",
        "maps",
        "map",
        "cpu",
        "read",
    ),
    *(
        "write",
        "reduces",
        "reduce",
        "submit",
        "deadline",
        "count",
        "params",
        "policies",
        "faults",
        "at",
        "kill",
    ),
    *("slow", "partition", "for", "select", "from", "users", "limits", "uplink", "heartbeat", "variance"),
]
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(yaml_like)
@example("[" * 3000)
@example("a: &a [*a]")
@example("a: !!python/object/apply:os.system [ls]")
@example("- 1: {? [a]: b}")
def test_any_text_is_a_scenario_or_bad_input(text):
    with_workload = f"workload: {{jobs: [{{app: pi}}]}}\n{text}"
    for candidate in (text, with_workload):
        try:
            check(load_text(candidate, "f"))
        except BadInput as error:
            assert str(error).startswith("f")


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_any_values_resolve_or_are_bad_input(raw):
    raw.setdefault("workload", {"jobs": [{"app": "pi"}]})
    try:
        assert resolve(raw).jobs
    except BadInput as error:
        assert str(error)


@given(
    st.lists(st.sampled_from([*KEYS, "0", "1", "99", ""]), min_size=1, max_size=5),
    st.sampled_from(["=", "", "=="]),
    yaml_like,
)
def test_any_setting_is_taken_or_bad_input(keys, equals, text):
    document = load_text(GOOD, "f")
    try:
        apply_set(document, f"{'.'.join(keys)}{equals}{text}")
        resolve(from_values(document.value).value)
    except BadInput as error:
        assert str(error)
