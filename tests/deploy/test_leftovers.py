"""Tests that a scratch folder and Ray's processes are removed after a process was killed, and only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.deploy.workspace import remove
from tests.harness.command import eventually

OWNER = """
import os, signal, sys
from pathlib import Path
from schedbed.deploy.workspace import scratch
with scratch() as folder:
    (folder / "journal").write_text("x")
    print(folder, flush=True)
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
print(Path(folder).exists())
"""


@pytest.mark.long  # seconds
@pytest.mark.parametrize(("how", "code"), [("dies", -9), ("ends", 0)])
def test_a_scratch_folder_goes_with_a_process_that_is_killed(how: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", OWNER, how], stdout=subprocess.PIPE, text=True)
    assert done.returncode == code
    folder, *after = done.stdout.split()
    assert after == ([] if how == "dies" else ["False"])
    eventually(lambda: not Path(folder).exists(), "the scratch folder of a killed process is left")


@pytest.mark.long  # it waits for what would end by itself
def test_rays_own_processes_are_known_by_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "schedbed-1-x"
    folder.mkdir()
    titled = ["bash", "-c", f"exec -a ray::DashboardAgent sleep 1000 > {folder}/agent.out"]
    stranger = ["bash", "-c", f"exec -a ray::DashboardAgent sleep 1000 > {tmp_path}/agent.out"]
    with subprocess.Popen(titled) as agent, subprocess.Popen(stranger) as other:
        eventually(lambda: (folder / "agent.out").exists(), "the process has not begun")
        remove(folder)
        assert agent.wait() == -9 and not folder.exists()
        assert other.poll() is None
        other.kill()
