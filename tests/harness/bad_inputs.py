"""Bad inputs for all commands, drawn from a seed.

What counts as wrong: tracebacks, inputs that take longer than `LIMIT_S`, and exits with 0 where an error was
expected.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

from schedbed.deploy.cli.main import app

LIMIT_S = 5.0
"""CPU seconds of this process for a bad input: on a busy host a command may wait longer for its turn."""
WORK_S = 180.0
"""CPU seconds for what may be a good input and is then done: 300 repeats took 62 s."""
GOOD = """
name: small
seed: 1
cluster: {nodes: 2, node: {memory: 512MiB, disk: 40MB/s, cores: 2, map_slots: 1}, heartbeat: 500ms}
blocks: {size: 64MiB, replication: 1}
workload:
  jobs:
    - {name: a, app: synthetic, maps: 2, map: {cpu: 1s}, reduces: 1, user: ana, submit: 0s}
policies: [fifo]
faults:
  - {at: 1s, kill: n1}
"""
NUMBERS = (
    "1e308",
    "-1",
    ".nan",
    ".inf",
    "nan",
    "inf",
    "-1e308",
    "1e999",
    "1" * 350,
    "0x10",
    "''",
    "[]",
    "{}",
)
EDGES = ("1e308", "1e12", "300", "1e-300", "0", "0.0000001")
"""Numbers that are right for some keys: such an input may also succeed."""
MAY_PASS = "--may-pass"
KEYS = (
    "seed",
    "scale",
    "repeats",
    "stretch",
    "cluster.nodes",
    "cluster.racks",
    "cluster.uplink",
    "cluster.downlink",
    "cluster.core_switch",
    "cluster.heartbeat",
    "cluster.node.cores",
    "cluster.node.core_speed",
    "cluster.node.memory",
    "cluster.node.disk",
    "cluster.node.network",
    "cluster.node.latency",
    "cluster.node.loss",
    "cluster.node.map_slots",
    "cluster.node.reduce_slots",
    "blocks.size",
    "blocks.replication",
    "workload.jobs[0].maps",
    "workload.jobs[0].reduces",
    "workload.jobs[0].map.cpu",
    "workload.jobs[0].submit",
    "workload.jobs[0].deadline",
    "workload.jobs[0].count",
    "faults[0].at",
    "simulate.seek",
    "simulate.stragglers.factor",
)
NAMES = ("", "..", ".", "a/b", "/", "x" * 300, "\\0", "\n", "a b", "-", "é" * 200, "../../etc", "$(id)")
NAMED = ("name", "workload.jobs[0].app", "workload.suite", "policies", "speculation", "sizes", "no.such.key")
OPTIONS = ("--nodes", "--scale", "--repeats", "--seed", "--webhdfs", "--metrics", "--web")
SIM = ("--machines", "sim", "--no-live")
Arguments = tuple[object, ...]


def _kinds_of_files(work: Path) -> list[Path]:
    """Create files that are no valid scenario (pipes, folders, huge or broken YAML, ...) in `work`.

    Return their paths.
    """
    work.mkdir()
    os.mkfifo(work / "fifo.yaml")
    (work / "folder.yaml").mkdir()
    (work / "large.yaml").write_text("a: [" + "1, " * 3_500_000 + "1]")
    (work / "bytes.yaml").write_bytes(bytes(range(256)))
    (work / "empty.yaml").write_text("")
    (work / "deep.yaml").write_text("[" * 5000)
    (work / "bomb.yaml").write_text(
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{n}: &{n} [{','.join([f'*{m}'] * 9)}]\n" for m, n in _chain())
    )
    (work / "loop.yaml").write_text("a: &a [*a]\n")
    (work / "link.yaml").symlink_to(work / "link.yaml")
    (work / "dangling.yaml").symlink_to(work / "nowhere")
    return [
        *sorted(work.iterdir()),
        Path("/dev/zero"),
        Path("/dev/null"),
        work / ("x" * 300),
        work / "no" / "x",
    ]


def _chain() -> Iterator[tuple[str, str]]:
    return ((chr(letter), chr(letter + 1)) for letter in range(ord("a"), ord("k")))


class BadInputs:
    """A generator of random command lines, most of which must fail.

    `work` is a folder for their input files.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._good = work / "good.yaml"
        self._good.write_text(GOOD)
        self._files = _kinds_of_files(work / "files")
        self._kinds: tuple[Callable[[Random], Arguments], ...] = (
            self._set,
            self._edge,
            self._name,
            self._option,
            self._file,
            self._torn,
            self._policy,
            self._other,
        )

    def draw(self, chance: Random) -> Arguments:
        """Return the arguments of one command, chosen with the random generator `chance`."""
        return chance.choice(self._kinds)(chance)

    def _run(self, *more: object) -> Arguments:
        return ("run", self._good, *SIM, "--out", self._work / "out", *more)

    def _set(self, chance: Random) -> Arguments:
        return self._run(
            "--set", f"{chance.choice(KEYS)}={chance.choice(NUMBERS)}{chance.choice(['', 'x', ' furlongs'])}"
        )

    def _edge(self, chance: Random) -> Arguments:
        setting = f"{chance.choice(KEYS)}={chance.choice(EDGES)}"
        return (MAY_PASS, *self._run("--nodes", 2, "--set", setting))

    def _name(self, chance: Random) -> Arguments:
        return self._run("--set", f"{chance.choice(NAMED)}='{chance.choice(NAMES)}'")

    def _option(self, chance: Random) -> Arguments:
        return self._run(
            chance.choice(OPTIONS), chance.choice(["-1", "0.5e400", "nan", "inf", "x", "", "1" * 400])
        )

    def _file(self, chance: Random) -> Arguments:
        file = chance.choice(self._files)
        return chance.choice(
            [
                ("run", file, *SIM, "--out", self._work / "out"),
                ("report", file),
                ("explain", file, "job_0001_m_000000"),
                ("whatif", file, "--no-live", "--out", self._work / "out"),
                ("validate", self._good, "--against", file, "--out", self._work / "out", "--no-live"),
                ("doctor", file),
                ("profile", file, "--app", "synthetic", "--machines", "sim"),
                ("trace", "describe", file),
                ("trace", "convert", file, self._work / "converted.yaml"),
                ("policy", "check", f"{file}:X"),
                self._run("--policy", f"{file}:X"),
                self._run("--out", self._files[0]),
                self._run("--set", f"workload={{trace: '{file}'}}"),
                self._run("--set", f"workload.jobs[0].app={file}:X"),
            ]
        )

    def _torn(self, chance: Random) -> Arguments:
        """Return a `run` command whose scenario has random characters replaced and an unknown key added."""
        text = list(GOOD)
        for _ in range(chance.randrange(1, 6)):
            text[chance.randrange(len(text))] = chance.choice("{}[]:,&*!|>'\"%@`-\t\0x9é")
        file = self._work / "torn.yaml"
        file.write_text("".join(text) + "\nno_such_key: 1\n")
        return ("run", file, *SIM, "--out", self._work / "out")

    def _policy(self, chance: Random) -> Arguments:
        name = chance.choice(
            ["fifo", "delay", "fair", "capacity", "nope", "order=fair", "", "..:", "x" * 300]
        )
        return self._run(
            "--policy", f"{name}:{chance.choice(['node_wait', 'k', ''])}={chance.choice(NUMBERS)}x"
        )

    def _other(self, chance: Random) -> Arguments:
        bad = chance.choice([*NAMES, *NUMBERS])
        return chance.choice(
            [
                ("policies", f"{bad}?"),
                ("apps", f"{bad}?"),
                ("suites", f"{bad}?"),
                ("reproduce", f"{bad}?", "--machines", "sim"),
                ("profile", self._good, "--app", f"{bad}?", "--machines", "sim"),
                ("status", "--name", f"{bad}?"),
                ("status", "--name", ""),
                ("down", "--name", f"no-{bad}?"),
                ("kill", f"{bad}?", "--name", "none-such"),
                ("run", self._good, "--machines", f"{bad}?"),
                ("whatif", self._work, "--nodes", f"{bad}x"),
                ("trace", "describe", self._good, "--format", f"{bad}?"),
                (f"{bad}?",),
            ]
        )


class _TooLong(BaseException):
    """Raised from a signal handler when a command exceeds its time limit."""


def _too_long(_: int, __: FrameType | None) -> NoReturn:
    raise _TooLong


def trouble(arguments: Arguments) -> str | None:
    """Call a command in this process. Return a description of what is wrong with how it ended, or None."""
    may_pass, arguments = arguments[:1] == (MAY_PASS,), tuple(each for each in arguments if each != MAY_PASS)
    limit_s = WORK_S if may_pass else LIMIT_S
    said = io.StringIO()
    before = signal.signal(signal.SIGPROF, _too_long)
    waits = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    signal.setitimer(signal.ITIMER_REAL, 12 * limit_s)  # For what waits without using any CPU.
    code: object = 0
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            app(args=[str(each) for each in arguments], prog_name="schedbed")
    except SystemExit as end:
        code = end.code
    except _TooLong:
        return f"took longer than {limit_s:g} s"
    except BaseException as error:
        return f"raised {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before)
        signal.signal(signal.SIGALRM, waits)
    text = said.getvalue()
    if "Traceback (most recent" in text or "unexpected error" in text:
        return f"not foreseen: {text.strip()[-300:]}"
    if code in (0, None) and may_pass:
        return None
    if code in (0, None):
        return f"exit 0: {text.strip()[-200:]}"
    return None if code in (1, 2) and text.strip() else f"exit {code} without a word"


def troubles(work: Path, count: int, seed: int) -> Iterator[str]:
    """Yield a line for each of `count` inputs after which the command ended wrongly."""
    inputs = BadInputs(work)
    for number in range(count):
        arguments = inputs.draw(Random(f"{seed}-{number}"))
        found = trouble(arguments)
        if found is not None:
            shown = " ".join(str(each)[:80] for each in arguments)
            yield f"{number}: {shown!r}: {found}"
        _clear(work / "out")


def _clear(out: Path) -> None:
    import shutil

    shutil.rmtree(out, ignore_errors=True)
