"""Check that crashes of the JobTracker do not change outputs under two user policies: README's, and a random
one.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from schedbed.scheduler.history import read_table
from tests.bench.figures import ROOT

SCENARIO = """
name: recovery
seed: {seed}
scale: {scale}
cluster: {{nodes: 4, racks: 2, heartbeat: 300ms, node: {{cores: 2, core_speed: 0.2, memory: 512MiB, disk: 40MB/s,
  network: 100Mbit/s, map_slots: 2, reduce_slots: 1}}}}
blocks: {{size: 64MiB, replication: 2}}
profiles: {{store: none}}
workload:
  jobs:
    - {{name: words, app: wordcount, input: {{generate: text, size: 512MiB}}, reduces: 2, user: ana}}
    - {{name: sort, app: sort, input: {{generate: records, size: 256MiB}}, reduces: 2, user: bo, submit: 20s}}
    - {{name: burn, app: synthetic, maps: 20, map: {{cpu: 20s, read: 16MiB, write: 16MiB}}, reduces: 1, submit: 40s}}
"""
CRASHES = "faults: [{}]\n".format(
    ", ".join(f"{{at: {at}s, crash: jobtracker, for: 20s}}" for at in (30, 80, 130))
)
SCALE = 0.05


def policies(folder: Path) -> dict[str, Path]:
    """Return a dictionary from class names to files of two policies: README's, written into `folder`, and
    `ByChance`.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [block.removeprefix("python\n") for block in text.split("```") if "class ShortestFirst" in block]
    (folder / "my_policy.py").write_text(blocks[0], encoding="utf-8")
    return {
        "ShortestFirst": folder / "my_policy.py",
        "ByChance": ROOT / "examples" / "policies" / "by_chance.py",
    }


def print_recovery(repeats: int, folder: Path, *, live: bool) -> int:
    """Run both policies with and without three crashes of the JobTracker, for `repeats` seeds, and print a
    row for each.

    Return 1 if outputs differ.
    """
    bad = 0
    for name, file in policies(folder).items():
        for seed in range(repeats):
            began_s = time.monotonic()
            calm, hit = (
                _outcome(folder / f"{name}{seed}{kind}", f"{file}:{name}", seed, faults, live=live)
                for kind, faults in (("calm", ""), ("hit", CRASHES))
            )
            same = calm[0] == hit[0] and bool(calm[0]) and not hit[1]
            bad += not same
            verdict = "the calm run's outputs" if same else f"DIFFERS: {hit[1] or (calm[0], hit[0])}"
            print(f"{name} seed {seed}: {verdict}, {time.monotonic() - began_s:.1f} s", flush=True)
    print(f"{2 * repeats - bad} of {2 * repeats} runs give the calm run's outputs")
    return 1 if bad else 0


def _outcome(
    folder: Path, policy: str, seed: int, faults: str, *, live: bool
) -> tuple[list[tuple[str, ...]], str]:
    """Run the scenario once.

    Return what the jobs wrote, and a description of what is wrong with the run, or an empty text.
    """
    folder.mkdir(parents=True)
    file, _, name = policy.rpartition(":")
    shutil.copy(file, folder / "policy.py")
    (folder / "s.yaml").write_text(SCENARIO.format(seed=seed, scale=SCALE) + faults, encoding="utf-8")
    command = [
        str(Path(sys.executable).with_name("schedbed")),
        "run",
        "s.yaml",
        "--policy",
        f"policy.py:{name}",
        "--out",
        "out",
    ]
    command += ["--no-live", *(("--keep-outputs",) if live else ("--machines", "sim"))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return [], done.stderr[-300:]
    jobs = read_table(folder / "out", "jobs")
    attempts = read_table(folder / "out", "attempts")
    wrote = [
        (str(row.job), str(row.state), str(row.output_bytes)) for row in jobs.sort_values("job").itertuples()
    ]
    if live:
        wrote = [(*row[:2], "") for row in wrote]
        files = sorted(path for path in (folder / "out" / "outputs").rglob("part-*") if path.is_file())
        if not files:
            return [], "no outputs were kept"
        digests = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
        wrote += [(path.parent.name, path.name, digest) for path, digest in zip(files, digests, strict=True)]
    twice = attempts["attempt"].duplicated().sum()
    lost = (attempts["state"] == "lost").sum()
    if lost:  # a loaded host may be silent for long enough that nodes expire
        print(f"  {folder.name}: {lost} attempts lost")
    return wrote, f"{twice} attempt ids twice" if twice else done.stderr.strip()
