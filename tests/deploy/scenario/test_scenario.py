"""Tests scenarios: how a file is resolved, which options change it, and that run.json keeps all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.scenario.models import Scenario
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario, SimulateChoice
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, Priority

TOPOLOGY = {
    "name": "<root>",
    "children": [
        {"name": "ra", "children": [{"name": "a1", "children": None}, {"name": "a2", "children": None}]},
        {"name": "rb", "children": [{"name": "b1", "children": None}]},
    ],
}

CONTRACT = """
name: quickstart
seed: 7
scale: 0.05
cluster:
  nodes: 6             # or a list of groups
  racks: 2
  uplink: none
  node: {cores: 2, core_speed: 0.1, memory: 512MiB, disk: 40MB/s, network: 100Mbit/s, map_slots: 2, reduce_slots: 1}
  heartbeat: 500ms     # not scaled
blocks: {size: 64MiB, replication: 3, placement: hdfs}
workload:
  jobs:
    - {name: wc, app: wordcount, input: books.txt, reduces: 2, user: ana, deadline: 10m, priority: normal, count: 1}
    - name: burn
      app: synthetic
      maps: 20
      map: {cpu: 30s, read: 64MiB, write: 64MiB}
      reduces: 2
      reduce: {cpu: 10s, write: 64MiB}
      user: bo
      submit: 20s
policies: [fifo, fair, {delay: {node_wait: 5s}}]
speculation: none
faults:
  - {at: 60s, kill: n3}
  - {at: 90s, partition: [n1, n2], for: 30s}
  - {at: 90s, slow: n4, cpu: 0.3, for: 60s}
repeats: 1
"""


def scenario(*jobs: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a small scenario as a dictionary with these jobs (default: one `pi`) and further keys."""
    return {"workload": {"jobs": list(jobs) or [{"app": "pi"}]}, **keys}


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """Write the scenario of the project's contract and a text of 10 MB; return the scenario's path."""
    (tmp_path / "books.txt").write_bytes(b"so many words\n" * 750_000)
    path = tmp_path / "quickstart.yaml"
    path.write_text(CONTRACT)
    return path


def test_the_contracts_example_in_seconds_and_bytes(contract):
    resolved = resolve(contract)
    words, burn = resolved.jobs
    assert (words.job, words.name, words.submit_s, words.deadline_s, words.user) == (
        "job_0001",
        "wc",
        0,
        30,
        "ana",
    )
    assert (burn.job, burn.submit_s, burn.maps, burn.reduces) == ("job_0002", 1.0, 20, 2)
    assert burn.map_costs == (Cost(cpu_s=1.5, read_bytes=3_355_443, write_bytes=3_355_443),) * 20
    assert burn.reduce_costs == (Cost(cpu_s=0.5, write_bytes=3_355_443),) * 2
    assert resolved.cluster.blocks.size_bytes == 3_355_443
    assert resolved.cluster.heartbeat_s == 0.5
    assert resolved.cluster.nodes[0].memory_bytes == 2**29
    assert [(fault.at_s, fault.kind, fault.nodes, fault.until_s) for fault in resolved.faults] == [
        (3.0, "kill", ("n3",), None),
        (4.5, "partition", ("n1", "n2"), 6.0),
        (4.5, "slow", ("n4",), 7.5),
    ]
    assert [choice.spec for choice in resolved.policies] == ["fifo", "fair", "delay:node_wait=5s"]


def test_a_real_file_is_used_whole_in_scaled_blocks(contract):
    book = resolve(contract).input("/in/books.txt")
    assert book.length == 10_500_000
    assert book.blocks == (3_355_443, 3_355_443, 3_355_443, 433_671)
    assert resolve(contract).jobs[0].maps == 4


def test_nodes_are_dealt_over_racks_and_groups_keep_theirs():
    plain = resolve(scenario(cluster={"nodes": 5, "racks": 2}))
    assert [(n.node, n.rack) for n in plain.cluster.nodes] == [
        ("n1", "r1"),
        ("n2", "r2"),
        ("n3", "r1"),
        ("n4", "r2"),
        ("n5", "r1"),
    ]
    groups = [{"count": 2, "rack": "a", "cores": 4}, {"count": 1, "rack": "b", "disk": "10MB/s"}]
    mixed = resolve(scenario(cluster={"nodes": groups, "node": {"cores": 3}}))
    assert [(n.rack, n.cores, n.disk_bps) for n in mixed.cluster.nodes] == [
        ("a", 4, 40e6),
        ("a", 4, 40e6),
        ("b", 3, 10e6),
    ]


def test_a_nic_has_latency_and_loss_which_are_not_scaled():
    groups = [{"count": 1}, {"count": 1, "latency": "2ms", "loss": 0}]
    given = {"nodes": groups, "node": {"latency": "30ms", "loss": 0.01}}
    resolved = resolve(scenario(cluster=given, scale=0.1))
    assert [(node.latency_s, node.loss) for node in resolved.cluster.nodes] == [(0.03, 0.01), (0.002, 0.0)]
    assert resolve(json.loads(json.dumps(resolved.to_json()))) == resolved
    for bad in ({"loss": 1}, {"loss": "1%"}, {"latency": "-1ms"}):
        with pytest.raises(BadInput, match=rf"cluster\.node\.{next(iter(bad))}"):
            resolve(scenario(cluster={"node": bad}))


def test_a_resolved_scenario_survives_run_json(contract):
    resolved = resolve(contract)
    again = resolve(json.loads(json.dumps(resolved.to_json())))
    assert again == resolved


def test_a_recorded_scenario_can_be_resolved_otherwise(contract):
    recorded = json.loads(json.dumps(resolve(contract).to_json()))
    other = resolve(recorded, nodes=8, scale=0.1, policies=["fair"], sets=["workload.jobs.1.reduces=4"])
    assert len(other.cluster.nodes) == 8
    assert other.jobs[1].reduces == 4
    assert other.jobs[1].map_costs[0].cpu_s == pytest.approx(3.0)
    assert other.input("/in/books.txt").length == 10_500_000  # found from the file's own folder
    assert [choice.given for choice in other.policies] == ["fair"]


def test_a_scenario_object_is_a_scenario(contract):
    values = scenario({"app": "synthetic", "maps": 3, "map": {"cpu": "2s"}}, scale=0.5)
    assert resolve(Scenario.model_validate(values)).jobs == resolve(values).jobs
    assert resolve(resolve(values)) == resolve(values)


def test_set_reaches_any_key(contract):
    sets = [
        "cluster.node.core_speed=0.2",
        "workload.jobs.0.user=eve",
        "faults=[]",
        "blocks.placement={skewed: 0.5}",
    ]
    resolved = resolve(contract, sets=sets)
    assert resolved.cluster.nodes[0].core_speed == 0.2
    assert resolved.jobs[0].user == "eve"
    assert resolved.faults == ()
    assert (resolved.cluster.blocks.placement, resolved.cluster.blocks.skew) == ("skewed", 0.5)


def test_limits_off_is_a_word_not_a_truth_value(contract):
    assert resolve(contract, sets=["cluster.limits=off"]).cluster.limits == "off"


def test_jobs_are_numbered_by_submission_and_copies_named():
    late = {"name": "late", "app": "pi", "submit": "9s"}
    twice = {"name": "twice", "app": "pi", "submit": "1s", "count": 2, "priority": "VERY_HIGH"}
    resolved = resolve(scenario(late, twice))
    assert [(job.job, job.name) for job in resolved.jobs] == [
        ("job_0001", "twice"),
        ("job_0002", "twice-2"),
        ("job_0003", "late"),
    ]
    assert resolved.jobs[0].priority is Priority.VERY_HIGH


def test_jobs_share_an_input_but_synthetic_jobs_never_do():
    text = {"generate": "text", "size": "200MiB"}
    burn = {"app": "synthetic", "maps": 2, "map": {"read": "1MiB"}}
    jobs = [
        {"app": "wordcount", "input": text},
        {"app": "grep", "params": {"pattern": "a"}, "input": text},
        burn,
        burn,
    ]
    resolved = resolve(scenario(*jobs))
    inputs = [job.input for job in resolved.jobs]
    assert inputs[0] == inputs[1]
    assert len(set(inputs)) == 3
    assert resolved.input(str(inputs[2])).blocks == (2**20, 2**20)


def test_a_synthetic_job_without_reading_has_no_file():
    job = resolve(scenario({"app": "synthetic", "maps": 4, "map": {"cpu": "1s"}})).jobs[0]
    assert (job.input, job.maps, job.reduces) == (None, 4, 0)


def test_variance_keeps_the_mean_and_the_seed_decides():
    burn = {"app": "synthetic", "maps": 4000, "map": {"cpu": "10s", "variance": 0.5}}
    costs = [cost.cpu_s for cost in resolve(scenario(burn, seed=3)).jobs[0].map_costs]
    mean = sum(costs) / len(costs)
    deviation = (sum((cost - mean) ** 2 for cost in costs) / len(costs)) ** 0.5
    assert mean == pytest.approx(10, rel=0.05)
    assert deviation / mean == pytest.approx(0.5, rel=0.1)
    assert costs == [cost.cpu_s for cost in resolve(scenario(burn, seed=3)).jobs[0].map_costs]
    assert costs != [cost.cpu_s for cost in resolve(scenario(burn, seed=4)).jobs[0].map_costs]


def test_what_reduces_read_is_what_maps_write():
    burn = {"app": "synthetic", "maps": 4, "map": {"cpu": "1s"}, "reduces": 2, "reduce": {"read": 1000}}
    job = resolve(scenario(burn)).jobs[0]
    assert {cost.write_bytes for cost in job.map_costs} == {500}


def test_memory_defaults_to_a_slots_share_of_the_smallest_node():
    nodes = [{"count": 1, "memory": "900MiB"}, {"count": 1, "memory": "300MiB"}]
    job = resolve(scenario(cluster={"nodes": nodes})).jobs[0]
    assert job.map_demand.memory_bytes == 100 * 2**20


def test_generated_records_are_whole_and_bytes_to_write_are_scaled():
    records = {"app": "sort", "input": {"generate": "records", "size": 12_345}}
    resolved = resolve(scenario(records, {"app": "randomtextwriter"}, scale=0.1))
    assert resolved.input(str(resolved.jobs[0].input)).length == 1200
    assert resolved.jobs[1].params["bytes"] == round(64 * 2**20 * 0.1)
    assert resolved.jobs[1].reduces == 0


@pytest.mark.parametrize("scale", [1.0, 0.15, 0.05, 0.03, 0.0171])
def test_a_generated_input_has_as_many_blocks_as_at_scale_1(scale):
    """A scaled input has the same number of blocks, in spite of rounding.

    At 0.05 a block is 3,355,443 bytes. 768 MiB would be twelve blocks and 2 bytes more, so a 13th map.
    """
    words = {"app": "wordcount", "input": {"generate": "text", "size": "768MiB"}}
    rest = {"app": "sort", "input": {"generate": "records", "size": "800MiB"}}
    whole, part = resolve(scenario(words, rest, scale=scale)).inputs
    assert len(whole.blocks) == 12
    assert max(whole.blocks) - min(whole.blocks) <= 12
    assert len(part.blocks) == 13
    assert part.length == pytest.approx(800 * 2**20 * scale, abs=200)


def test_replication_follows_a_small_cluster_unless_given():
    assert resolve(scenario(cluster={"nodes": 2})).cluster.blocks.replication == 2


@pytest.mark.parametrize("path", sorted(Path("deploy/scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_resolves(path, tmp_path):
    trace = tmp_path / "trace.tsv"
    trace.write_text(
        "".join(f"job{n}\t{n * 10}\t10\t{n * 10**7}\t{n * 10**6}\t{n * 10**5}\n" for n in range(60))
    )
    topology = tmp_path / "topology.json"
    topology.write_text(json.dumps(TOPOLOGY))
    given = {"trace:": f"workload.trace={trace}", "topology:": f"cluster.topology={topology}"}
    resolved = resolve(path, sets=[key for word, key in given.items() if word in path.read_text()])
    assert resolved.jobs
    names = [choice.spec.partition(":")[0] for choice in resolved.policies]
    assert names == [name for name in ("fifo", "fair", "delay") if name in names] and len(names) > 1


def test_a_topology_is_the_cluster_and_blocks_lie_where_they_lay(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(TOPOLOGY))
    maps = [
        {
            "taskID": f"m{host}",
            "inputBytes": 1000,
            "outputBytes": 10,
            "preferredLocations": [{"layers": [rack, host]}],
            "attempts": [{"result": "SUCCESS", "startTime": 1000, "finishTime": finish}],
        }
        for rack, host, finish in (("ra", "a2", 5000), ("rb", "b1", 3000))
    ]
    job = {"jobID": "job_1", "submitTime": 0, "finishTime": 9000, "outcome": "SUCCESS", "mapTasks": maps}
    (tmp_path / "j.json").write_text(json.dumps(job))
    values = {"cluster": {"topology": "t.json"}, "workload": {"trace": "j.json"}, "scale": 0.5}
    values |= {"blocks": {"replication": 1}}
    resolved = resolve(values, base=tmp_path)
    assert [node.rack for node in resolved.cluster.nodes] == ["ra", "ra", "rb"]
    assert resolved.inputs[0].preferred == (("n2",), ("n3",))
    assert [cost.duration_s for cost in resolved.jobs[0].map_costs] == [2.0, 1.0]
    assert (resolved.simulate.costs, resolved.simulate.contention) == ("trace", False)
    with pytest.raises(BadInput, match="the topology says which nodes there are"):
        resolve(values | {"cluster": {"topology": "t.json", "nodes": 3}}, base=tmp_path)
    with pytest.raises(BadInput, match=r"j\.json holds jobs, expected a Rumen topology"):
        resolve(values | {"cluster": {"topology": "j.json"}}, base=tmp_path)


def test_faults_and_choices_of_the_simulator():
    faults = [
        {"at": "1s", "lose_requests": "all", "share": 0.1, "for": "5s"},
        {"at": "2s", "lose_replies": ["n1", "n2"], "share": 0.2},
        {"at": "3s", "crash": "jobtracker", "for": "2s"},
        {"at": "4s", "restart": "namenode"},
    ]
    asked = {"costs": "profile", "contention": False, "stragglers": {"share": 0.1, "factor": 3}}
    resolved = resolve(scenario({"app": "pi"}, faults=faults, simulate=asked, scale=2))
    found = [(fault.at_s, fault.kind, fault.nodes, fault.until_s, fault.share) for fault in resolved.faults]
    assert found == [
        (2.0, "lose_requests", (), 12.0, 0.1),
        (4.0, "lose_replies", ("n1", "n2"), None, 0.2),
        (6.0, "crash_jobtracker", (), 10.0, 0.0),
        (8.0, "restart_namenode", (), None, 0.0),
    ]
    assert resolved.simulate == SimulateChoice(
        costs="profile", contention=False, straggler_share=0.1, straggler_factor=3.0
    )
    assert ResolvedScenario.from_json(json.loads(json.dumps(resolved.to_json()))) == resolved
    with pytest.raises(BadInput, match="trace needs a workload from a trace that timed its attempts"):
        resolve(scenario({"app": "pi"}, simulate={"costs": "trace"}))


def test_tasks_that_are_alike_take_little_room_in_run_json():
    burn = {"app": "synthetic", "maps": 500, "map": {"cpu": "3s", "read": "1MiB"}}
    resolved = resolve(scenario(burn))
    text = json.dumps(resolved.to_json())
    assert len(text) < 5000
    back = ResolvedScenario.from_json(json.loads(text))
    assert back == resolved and len(back.jobs[0].map_costs) == len(back.inputs[0].blocks) == 500


def test_what_nodes_suffer_from_is_a_default_that_groups_replace() -> None:
    disk, memory = {"rate": "40MB/s", "seek": 0.1}, {"size": "8GiB", "paging": 0.3}
    groups = [{}, {"disk": "20MB/s"}, {"memory": "1GiB", "shared_disk": "h1"}]
    cluster = {"node": {"disk": disk, "memory": memory}, "nodes": groups}
    resolved = resolve(scenario(cluster=cluster))
    have = [(node.disk_bps, node.seek, node.memory_bytes, node.paging) for node in resolved.cluster.nodes]
    assert have == [(40e6, 0.1, 8 * 2**30, 0.3), (20e6, 0.0, 8 * 2**30, 0.3), (40e6, 0.1, 2**30, 0.0)]
    assert [node.shared_disk for node in resolved.cluster.nodes] == ["", "", "h1"]
    assert resolve(json.loads(json.dumps(resolved.to_json()))) == resolved


def test_a_foreground_load_is_a_share_or_steps_with_times_that_are_scaled() -> None:
    groups = [{}, {"foreground": 0}, {"foreground": [{"at": "0s", "cpu": 0.8}, {"at": "1m", "cpu": 0}]}]
    groups.append({"foreground": {"at": "10s", "cpu": 0.2}})
    resolved = resolve(scenario(scale=0.5, cluster={"node": {"foreground": 0.5}, "nodes": groups}))
    loads = [node.foreground for node in resolved.cluster.nodes]
    assert loads == [((0.0, 0.5),), (), ((0.0, 0.8), (30.0, 0.0)), ((5.0, 0.2),)]
    for now_s, free in ((0.0, [0.5, 1, 0.2, 1]), (5.0, [0.5, 1, 0.2, 0.8]), (30.0, [0.5, 1, 1, 0.8])):
        assert [node.free_cpu(now_s) for node in resolved.cluster.nodes] == pytest.approx(free)
    assert resolve(json.loads(json.dumps(resolved.to_json()))) == resolved


def test_run_json_of_nodes_that_do_not_suffer_says_nothing_of_it() -> None:
    nodes = resolve(scenario()).to_json()["cluster"]["nodes"]
    assert not {"seek", "paging", "shared_disk", "foreground"} & nodes[0].keys()


def test_simulate_seek_is_of_disks_that_declare_none() -> None:
    cluster = {"nodes": [{}, {"disk": {"rate": "40MB/s", "seek": 0.5}}]}
    resolved = resolve(scenario(cluster=cluster, simulate={"seek": 0.2}))
    assert [node.seek for node in resolved.cluster.nodes] == [0.0, 0.5]  # live
    simulated = resolved.cluster.with_seek(resolved.simulate.seek)
    assert [node.seek for node in simulated.nodes] == [0.2, 0.5]


def test_a_rate_that_lacks_its_unit_is_pointed_out() -> None:
    """A number without a unit is in bytes per second.

    A disk of 20 is allowed, but a warning asks for the unit.
    """
    node = {"disk": 20, "network": "12MB/s"}
    made = resolve(scenario(cluster={"nodes": 2, "node": node}, policies=["fifo"]))
    assert made.warnings == ("cluster.node.disk: 20 is 20 bytes per second; for megabytes write 20MB/s",)
    assert resolve(scenario(policies=["fifo"])).warnings == ()
