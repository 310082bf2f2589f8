"""The fit of a framework's delays to recordings: known delays are found, and other recordings judge them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schedbed.deploy.cli.main import app
from schedbed.deploy.studies.fitted_framework import DELAYS, delays_of, fitted, halves
from schedbed.deploy.studies.recorded_run import validate_recorded
from schedbed.scheduler.framework import HADOOP1, Framework
from schedbed.tasks.errors import BadInput

SHARED = Path(__file__).parents[4] / "shared" / "traces" / "slurm"


@pytest.mark.parametrize("profile", [Framework(), HADOOP1])
def test_the_delays_with_the_least_error_are_found(profile: Framework) -> None:
    """The error is the sum of the distances to known delays, and other values of the profile stay."""

    def error_of(number: int, framework: Framework) -> float:
        seen.add(number)
        return abs(framework.init_s - 2.3) + abs(framework.localize_s - 0.4) + framework.cleanup_s

    seen: set[int] = set()
    fitting, judging = halves(5)
    found = fitted(profile, fitting, error_of)
    assert delays_of(found) == "init 2.3 s, localize 0.4 s, cleanup 0 s"
    assert found.setup_s == profile.setup_s and not seen.intersection(judging)
    assert sorted((*fitting, *judging)) == [0, 1, 2, 3, 4]


def swf(folder: Path, name: str, *, late_s: int) -> Path:
    """Write a trace of three jobs on one processor that start `late_s` after their submission; return its path."""
    tail = "-1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1"
    path = folder / name
    path.write_text("".join(f"{job} {200 * job} {late_s} 100 1 {tail}\n" for job in range(3)))
    return path


def test_a_delay_of_recordings_is_fitted_and_judged_on_others(tmp_path: Path) -> None:
    told: list[str] = []
    files = [swf(tmp_path, f"{number}.swf", late_s=20) for number in range(3)]
    (judged,) = validate_recorded(files, tmp_path / "out", policies=["easy"], fit=True, say=told.append)
    assert judged.job_error < 0.01
    kept = json.loads((tmp_path / "out" / "validate.json").read_text())
    [report] = kept["recordings"]
    assert report["trace"] == str(files[1])
    fit = kept["fit"]
    assert fit["errors"]["before"]["judging"][0] > 0.15 > 0.01 > fit["errors"]["after"]["judging"][0]
    # Jobs that never wait for each other do not tell a delay before the start from one after the end.
    assert sum(fit["framework"][key] for key in DELAYS) == pytest.approx(20, abs=0.6)
    assert any(line.startswith("fitted on 2 recordings") for line in told)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--recorded", "--policy", "easy"], "one recording, expected at least two"),
        (["--policy", "easy"], "--fit: only goes with --recorded"),
    ],
)
def test_a_fit_needs_recordings(tmp_path: Path, options: list[str], told: str) -> None:
    file = swf(tmp_path, "t.swf", late_s=0)
    result = CliRunner().invoke(app, ["validate", str(file), "--fit", "--out", str(tmp_path / "o"), *options])
    assert result.exit_code == 2 and told in " ".join(result.output.split())


def test_a_fit_is_of_one_system(tmp_path: Path) -> None:
    files = [swf(tmp_path, f"{number}.swf", late_s=0) for number in range(2)]
    with pytest.raises(BadInput, match="several policies"):
        validate_recorded(files, tmp_path / "o", policies=["easy", "easy:backfill=false"], fit=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder with recordings of real systems is not here")
def test_delays_fitted_to_one_workload_of_slurm_help_with_another(tmp_path: Path) -> None:
    """Four recordings of first come, first served: one workload fits, the other judges."""
    files = [SHARED / f"{name}-fcfs-{number}.sacct" for number in (1, 2) for name in ("exact", "over")]
    fit: dict[str, Any] = {"framework": "none", "policies": ["easy:backfill=false"], "fit": True}
    validate_recorded(files, tmp_path / "o", **fit, say=lambda _: None)
    errors = json.loads((tmp_path / "o" / "validate.json").read_text())["fit"]["errors"]
    assert max(errors["after"]["judging"]) < min(errors["before"]["fitting"])
