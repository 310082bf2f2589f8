"""Tests `profiles: {learn: true}`: profiles measured in a run are available to later runs at any scale."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from schedbed import Result, run
from schedbed.deploy.cli.main import app
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.admission.fgcs import DEMAND
from schedbed.scheduler.models.job_profile import JobProfile
from schedbed.scheduler.models.resource_profiles import RESOURCES
from schedbed.scheduler.profiles import ProfileStore
from schedbed.tasks.errors import BadInput
from tests.deploy.results.test_findings import SCENARIO


def finished(store: Path, out: Path, policy: str = "fifo", learn: bool = True, **changes: Any) -> Result:
    """Simulate two jobs of the user ana, submitted a minute apart, with eight maps of 5 s of CPU each.

    `store` is the profile store, `out` the result folder, `changes` are other keys of the scenario.
    """
    given = {**SCENARIO, "profiles": {"store": str(store), "learn": learn}, "policies": [policy], **changes}
    return run(given, machines="sim", out=out)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a profile store after one run of the application `burn`."""
    folder = tmp_path_factory.mktemp("first")
    finished(folder / "store.sqlite", folder / "out")
    return folder / "store.sqlite"


@pytest.fixture
def store(first: Path, tmp_path: Path) -> Path:
    """Return a copy of the profile store `first`."""
    return Path(shutil.copy(first, tmp_path))


def phases(store: Path) -> JobProfile:
    known = ProfileStore(store).load("aria", "ana/burn")
    assert known is not None
    return JobProfile.from_json(known)


def test_a_run_under_any_policy_teaches_all_three(store: Path) -> None:
    assert phases(store).runs == 2 and phases(store).map.avg_s == pytest.approx(5, rel=0.3)
    demand, resources = (ProfileStore(store).load(kind, "burn") for kind in (DEMAND, RESOURCES))
    assert demand is not None and 90 <= demand["map"] <= 100
    assert resources is not None and 30 < resources["map"]["cpu"] <= 50  # of a node with two cores


def test_what_is_kept_is_of_the_scenario_before_its_scale(store: Path, tmp_path: Path) -> None:
    """At scale 0.5 a map that lasts 2.5 s is stored with about 5 s, its duration at scale 1."""
    scaled = tmp_path / "scaled.sqlite"
    finished(scaled, tmp_path / "out", scale=0.5)
    assert phases(scaled).map.avg_s == pytest.approx(phases(store).map.avg_s, rel=0.15)
    assert phases(scaled).map_input_bytes == phases(store).map_input_bytes


@pytest.mark.long  # seconds
def test_the_next_run_knows_the_job_from_its_first_heartbeat(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    before = finished(store, tmp_path / "a", "aria").decisions
    after = finished(store, tmp_path / "b", "aria").decisions
    unknown = "no profile yet"
    assert before.query("job == 'job_0001'")["reason"].str.contains(unknown).any()
    assert not after["reason"].str.contains(unknown).any()
    assert phases(store).runs == 4  # phases are averaged
    demand = ProfileStore(store).load(DEMAND, "burn")
    finished(store, tmp_path / "c", "fgcs", workload=_faster())
    assert ProfileStore(store).load(DEMAND, "burn") == demand  # a demand stays until it is cleared


def _faster() -> dict[str, Any]:
    return {
        "jobs": [{**job, "map": {"cpu": "6s", "write": "400MiB"}} for job in SCENARIO["workload"]["jobs"]]
    }


def test_without_learn_the_store_stays_as_it_is(store: Path, tmp_path: Path) -> None:
    kept = store.read_bytes()
    finished(store, tmp_path / "b", "aria", learn=False)
    assert store.read_bytes() == kept


def test_a_failed_job_teaches_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    faults = [{"at": "1s", "kill": name} for name in ("n1", "n2", "n3")]
    with pytest.raises(RunFailed):
        finished(store, tmp_path / "a", faults=faults)
    assert not store.exists()


def test_store_none_hides_the_users_own(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDBED_PROFILES", str(store))
    for name, knows in (("default", True), ("none", False)):
        given = {**SCENARIO, "profiles": {"store": name}, "policies": ["aria"]}
        reasons = run(given, machines="sim", out=tmp_path / name).decisions["reason"]
        assert reasons.str.contains("no profile yet").any() is not knows


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ({"store": "nowhere.sqlite"}, "profiles.store: no profile store 'nowhere.sqlite'"),
        ({"store": "none", "learn": True}, "profiles.learn: there is no store to keep anything in"),
        ({"learn": "maybe"}, "profiles.learn"),
        ({"stores": "x"}, "profiles.stores: unknown key"),
    ],
)
def test_nonsense_is_told_in_a_line(profiles: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as raised:
        resolve({**SCENARIO, "profiles": profiles}, base=tmp_path)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_profile_clear_forgets_a_workload(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**SCENARIO, "profiles": {"store": str(store), "learn": True}}))
    measure = [
        "profile",
        str(path),
        "--app",
        "burn",
        "--store",
        str(store),
        "--machines",
        "sim",
        "--most",
        "1",
    ]
    command = ["profile", str(path), "--app", "burn", "--store", str(store), "--clear"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and "burn" in result.output
    assert all(not ProfileStore(store).load_all(kind) for kind in (DEMAND, RESOURCES, "aria"))
    assert CliRunner().invoke(app, measure).exit_code == 0
    assert phases(store).runs == 1  # runs of `profile` itself do not learn beside it
