"""Damaged copies of a run's folder, and the commands that do not report the damage, which is drawn from a seed."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from schedbed.deploy.cli.main import app
from schedbed.scheduler.history import COLUMNS

SCENARIO = """
name: record
cluster: {nodes: 4}
workload:
  jobs:
    - {name: a, app: synthetic, maps: 4, reduces: 1, map: {cpu: SECONDS}, reduce: {cpu: 1s}}
    - {name: b, app: synthetic, maps: 3, map: {cpu: 3s}, submit: 2s}
policies: [fifo, fair]
"""
Damage = Callable[[Path, Path, Random], None]


def make_run(folder: Path, seconds: str) -> Path:
    """Simulate a small run whose first job's maps take `seconds` (such as "3s") of CPU.

    Return the run's folder.
    """
    file = folder / f"{seconds}.yaml"
    file.write_text(SCENARIO.replace("SECONDS", seconds))
    made = folder / f"run-{seconds}"
    code, text = call("run", file, "--machines", "sim", "--no-live", "--out", made)
    if code:
        raise RuntimeError(text)
    return made


def call(*arguments: object) -> tuple[int, str]:
    """Call a command of schedbed in this process. Return its exit code and all that it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            app(args=[str(each) for each in arguments], prog_name="schedbed")
        except SystemExit as end:
            return (0 if end.code is None else int(end.code)), said.getvalue()
    return 0, said.getvalue()


def commands(folder: Path, out: Path) -> dict[str, tuple[object, ...]]:
    """Return the commands that read the run in `folder`, by name. They write below `out`."""
    return {
        "report": ("report", folder),
        "explain": ("explain", folder, "job_0001_m_000000"),
        "whatif": ("whatif", folder, "--no-live", "--out", out / "whatif"),
        "validate": (
            "validate",
            out / "3s.yaml",
            "--against",
            folder,
            "--no-live",
            "--out",
            out / "validate",
        ),
    }


def _victim(folder: Path, chance: Random) -> Path:
    return folder / f"{chance.choice(sorted(COLUMNS))}.parquet"


def _truncated(folder: Path, _: Path, chance: Random) -> None:
    path = _victim(folder, chance)
    os.truncate(path, chance.randrange(path.stat().st_size))


def _deleted(folder: Path, _: Path, chance: Random) -> None:
    _victim(folder, chance).unlink()


def _flipped(folder: Path, _: Path, chance: Random) -> None:
    _flip(_victim(folder, chance), chance)


def _flip(path: Path, chance: Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _swapped(folder: Path, _: Path, chance: Random) -> None:
    one, other = chance.sample(sorted(COLUMNS), 2)
    kept = (folder / f"{one}.parquet").read_bytes()
    shutil.copy(folder / f"{other}.parquet", folder / f"{one}.parquet")
    (folder / f"{other}.parquet").write_bytes(kept)


def _emptied(folder: Path, _: Path, chance: Random) -> None:
    _victim(folder, chance).write_bytes(b"")


def _older(folder: Path, other: Path, chance: Random) -> None:
    """Replace a table in `folder` by that of another run of the same scenario, whose rows differ."""
    name = f"{chance.choice(['jobs', 'attempts', 'decisions'])}.parquet"
    shutil.copy(other / name, folder / name)


def _other_rows(folder: Path, _: Path, chance: Random) -> None:
    """Replace a table in `folder` by a readable one with one row less."""
    import fastparquet

    path = folder / f"{chance.choice(['jobs', 'attempts', 'decisions', 'heartbeats'])}.parquet"
    with path.open("rb") as file:
        rows = fastparquet.ParquetFile(file).to_pandas()
    fastparquet.write(str(path), rows.drop(index=chance.randrange(len(rows))), write_index=False)


def _edited(folder: Path, _: Path, chance: Random) -> None:
    path = folder / "run.json"
    old, new = chance.choice(
        [('"succeeded"', '"failed"'), ('"rows": ', '"rows": 1'), ('"seed": ', '"seed": 1'), ("fair", "hod")]
    )
    path.write_text(path.read_text().replace(old, new, 1))


def _record_flipped(folder: Path, _: Path, chance: Random) -> None:
    _flip(folder / "run.json", chance)


def _record_missing(folder: Path, _: Path, chance: Random) -> None:
    (folder / "run.json").unlink()


def _record_truncated(folder: Path, _: Path, chance: Random) -> None:
    path = folder / "run.json"
    os.truncate(path, chance.randrange(path.stat().st_size))


def _record_of_another(folder: Path, other: Path, chance: Random) -> None:
    shutil.copy(other / "run.json", folder / "run.json")


def _linked(folder: Path, other: Path, chance: Random) -> None:
    name = f"{chance.choice(['jobs', 'attempts', 'decisions'])}.parquet"
    (folder / name).unlink()
    (folder / name).symlink_to(chance.choice([other / name, folder / "nowhere"]))


def _folder_for_file(folder: Path, _: Path, chance: Random) -> None:
    path = chance.choice([_victim(folder, chance), folder / "run.json"])
    path.unlink()
    path.mkdir()


def _fifo_for_file(folder: Path, _: Path, chance: Random) -> None:
    path = chance.choice([_victim(folder, chance), folder / "run.json"])
    path.unlink()
    os.mkfifo(path)


DAMAGES: Sequence[Damage] = (
    _truncated,
    _deleted,
    _flipped,
    _swapped,
    _emptied,
    _older,
    _other_rows,
    _edited,
    _record_flipped,
    _record_missing,
    _record_truncated,
    _record_of_another,
    _linked,
    _folder_for_file,
    _fifo_for_file,
)


def silent_successes(work: Path, count: int, seed: int, *, only: Sequence[str] = ()) -> list[str]:
    """Try commands on `count` damaged copies of a run.

    Return a line for each that did not report the damage properly. A command must exit with 2, name the
    folder, and show no traceback. `only` names the commands to try.
    """
    good, other = make_run(work, "3s"), make_run(work, "5s")
    found: list[str] = []
    for number in range(count):
        chance = Random(f"{seed}-{number}")
        damage = DAMAGES[number % len(DAMAGES)]
        folder = work / f"damaged-{number}"
        shutil.copytree(good, folder)
        damage(folder, other, chance)
        for name, arguments in commands(folder, work).items():
            if only and name not in only:
                continue
            code, said = call(*arguments)
            if code != 2 or "Traceback" in said or str(folder) not in said:
                found.append(f"{number} {damage.__name__} {name}: exit {code}: {said.strip()[-200:]}")
            for made in ("whatif", "validate"):
                shutil.rmtree(work / made, ignore_errors=True)
        shutil.rmtree(folder)
    return found
