"""The installed wheel, run in a folder that contains a user's files named like schedbed's subpackages.

The wheel is built from the checkout and installed into a new environment. The dependencies are not downloaded
again: a `.pth` file adds the site-packages of the environment that runs the tests. Python ignores `.pth`
files in a folder added this way. So the new environment does not see the checkout, to which an editable
install links by such a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import ray

from tests.harness.command import write_scenario
from tests.harness.engine import engine_or_skip

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 900.0  # of a command that takes under a minute on an idle host
IN_THE_WAY = (
    "tasks.py",
    "cluster/__init__.py",
    "deploy.py",
    "scheduler.py",
    "schedbed_policies.py",
    "queue.py",
)
MINE = """
from helper import youngest
from schedbed.policy import Proposal, TaskKind


class Mine:
    def decide(self, view, node, kind):
        for job in youngest(view.jobs.values()):
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, "youngest")
        return None
"""


class Installed:
    """The `schedbed` command of the installed wheel, run in a user's folder."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self._bin, self.folder = bin_folder, folder
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.environment["XDG_RUNTIME_DIR"] = str(folder.parent)

    def __call__(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        code, said = self.ends(*arguments)
        assert code == 0, f"schedbed {' '.join(arguments)} ended with {code}:\n{said}"
        return said

    def ends(self, *arguments: str) -> tuple[int, str]:
        """Run a command to its end, and return its exit code and its output."""
        done = subprocess.run(
            [self._bin / "schedbed", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout

    def python(self, code: str) -> str:
        """Return the output of Python code that runs with the user's folder first in its search path."""
        command = [self._bin / "python", "-c", code]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout, and return its path.

    The build uses a copy, since it leaves files beside the sources.
    """
    folder = tmp_path_factory.mktemp("wheel")
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT).split(
        b"\0"
    )
    for name in (Path(os.fsdecode(name)) for name in names if name):
        if os.path.lexists(ROOT / name):
            (folder / "source" / name.parent).mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (folder / "source" / name).symlink_to((ROOT / name).readlink())
            else:
                (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    builder = [sys.executable, "-m", "pip"]
    if int(version("setuptools").split(".")[0]) >= 77:  # what the build asks for is here
        builder.append("--no-build-isolation")
    subprocess.run(
        [
            *builder[:3],
            "wheel",
            "--quiet",
            "--no-deps",
            *builder[3:],
            "--wheel-dir",
            folder,
            folder / "source",
        ],
        check=True,
        timeout=TIMEOUT_S,
    )
    return next(folder.glob("schedbed-*.whl"))


@pytest.fixture(scope="module")
def schedbed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build an environment with the wheel installed; return the environment's `schedbed` command.

    The command's folder is full of files that must not be imported.
    """
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, timeout=TIMEOUT_S
    )
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site / "dependencies_of_the_tests.pth").write_text(f"{Path(ray.__file__).parents[1]}\n")
    folder = tmp_path_factory.mktemp("user") / "work"
    for name in IN_THE_WAY:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            f"raise RuntimeError('the user's own {name} was imported')\n".replace("'s", "\\'s")
        )
    return Installed(environment / "bin", folder)


def test_the_wheel_has_one_top_level_and_all_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"schedbed", f"schedbed-{version_of(wheel)}.dist-info"}
    source = {
        path.relative_to(ROOT) for room in ("tasks", "cluster", "scheduler", "deploy") for path in files(room)
    }
    hostile = {path for path in source if path.is_relative_to("tasks/hostile")}
    assert hostile and names.isdisjoint(f"schedbed/{path}" for path in hostile)
    assert {f"schedbed/{path}" for path in source - hostile} - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def files(room: str) -> list[Path]:
    """Return the files of the subpackage `room` that are needed at run time: code and data.

    Files that only set up a checkout are left out.
    """
    ours = subprocess.check_output(["git", "ls-files", "-z", room], cwd=ROOT).decode().split("\0")
    of_a_checkout = re.compile(r"quickstart|setup\.sh|lock|constraints.*\.txt")
    return [ROOT / name for name in ours if name and not of_a_checkout.fullmatch(Path(name).name)]


def test_the_package_is_the_installed_one(schedbed: Installed) -> None:
    code = "import schedbed, schedbed.tasks.specs; print(schedbed.__file__); print(schedbed.tasks.specs.__file__)"
    package, module = schedbed.python(code).split()
    assert str(ROOT) not in package + module and "site-packages/schedbed/" in package
    with pytest.raises(AssertionError, match=r"own tasks\.py was imported"):
        schedbed.python("import tasks")


@pytest.fixture(scope="module")
def mine(schedbed: Installed) -> str:
    """Write a policy that imports a file beside it, in a subfolder; return the policy's SPEC."""
    (schedbed.folder / "sub").mkdir()
    (schedbed.folder / "sub" / "mine.py").write_text(MINE)
    (schedbed.folder / "sub" / "helper.py").write_text(
        "def youngest(jobs):\n    return reversed(list(jobs))\n"
    )
    return "sub/mine.py:Mine"


def test_a_live_run(schedbed: Installed, mine: str) -> None:
    """Run a built-in policy and a user's policy, whose second file the JobTracker's process imports."""
    policies = ("--policy", "fifo", "--policy", mine)
    said = schedbed("run", "quickstart", "--scale", "0.02", *policies, "--no-live", "--out", "process")
    assert "jobs succeeded" in said
    assert (schedbed.folder / "process" / "report.html").is_file()
    runs = json.loads((schedbed.folder / "process" / "run.json").read_text())["runs"]
    assert [(run["policy"], run["state"]) for run in runs] == [("fifo", "succeeded"), (mine, "succeeded")]


def test_a_policy_with_a_file_beside_it_in_virtual_time(schedbed: Installed, mine: str) -> None:
    options = ("--machines", "sim", "--policy", mine, "--no-live", "--out", "mine-sim")
    assert "jobs succeeded" in schedbed("run", "quickstart", "--scale", "0.02", *options)


@pytest.mark.slow  # a minute; test_docker runs containers from the checkout
def test_a_run_in_containers(schedbed: Installed) -> None:
    """Run a small scenario of the user's. The larger one would use a whole core for a minute once more."""
    engine_or_skip()
    scenario = write_scenario(schedbed.folder)
    machines = ("--machines", "docker", "--no-live", "--no-report")
    assert "jobs succeeded" in schedbed("run", scenario.name, *machines, "--out", "docker")


def test_a_cluster_that_stays_up(schedbed: Installed) -> None:
    assert "is up under" in schedbed("up", "quickstart", "--nodes", "2", "--name", "lab", "--out", "lab")
    try:
        said = schedbed("submit", "lab", "--app", "pi", "--maps", "2", "--wait")
    finally:
        schedbed("down", "lab")
    assert "succeeded" in said


def test_an_actor_that_cannot_import_says_so(schedbed: Installed) -> None:
    """A broken module in PYTHONPATH ends the run with an error that names the cause."""
    broken = schedbed.folder.parent / "broken"
    broken.mkdir()
    # The driver gets past this, since what it has imported decides; the workers, which Ray starts, do not.
    (broken / "sqlite3.py").write_text(
        "import sys\nif any('default_worker' in word for word in sys.argv + [sys.orig_argv[-1], *sys.orig_argv]):\n"
        "    raise ImportError('no sqlite3 in this Python')\n"
        "del sys.modules['sqlite3']\nsys.path.remove(__file__.rpartition('/')[0])\nimport sqlite3\n"
    )
    schedbed.environment["PYTHONPATH"] = str(broken)
    try:
        code, said = schedbed.ends("run", "quickstart", "--nodes", "2", "--no-live", "--out", "broken")
    finally:
        del schedbed.environment["PYTHONPATH"]
    assert code == 1
    assert "schedbed: an actor cannot import its code: ImportError: no sqlite3 in this Python" in said
    assert "Fewer nodes?" not in said
