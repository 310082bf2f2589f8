"""Static plots for papers and the README, drawn by matplotlib as SVG and PNG files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.comparison import seconds
from schedbed.deploy.results.runfile import RunFile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

FOLDER = "plots"
OKABE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
DASHES = ("-", "--", ":", "-.")
PLACES = (("node-local", "#0072B2"), ("rack-local", "#56B4E9"), ("off-rack", "#E69F00"))
RC: Any = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "schedbed",
    "path.simplify": True,
}
RASTER_FROM = 3_000  # Number of boxes from which an SVG has a raster image of them.

Data = Mapping[str, Any]


def write(folder: Path, run: RunFile, data: Data) -> list[Path]:
    """Write overview.png and an SVG file per plot of the report's data. Return their paths, none without a policy."""
    if not data["policies"]:
        return []
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    policies = len(data["policies"])
    with matplotlib.rc_context(RC):
        made = [_overview(folder / "overview.png", run, data)]
        made.append(_single(folder / "completion.svg", (3.6, 2.4), lambda ax: completion(ax, data)))
        made.append(
            _single(folder / "locality.svg", (3.6, 0.8 + 0.35 * policies), lambda ax: places(ax, data))
        )
        for name, draw in (("slots", slots), ("running", running), ("shares", shares), ("cpu", cpu)):
            made.append(_stacked(folder / f"{name}.svg", data, draw))
    return made


def completion(ax: Axes, data: Data) -> None:
    """Draw, per policy, the share of jobs that were completed within a given time."""
    for i, policy in enumerate(data["policies"]):
        times = [0.0, *policy["spread"]["completion"]]
        share = np.linspace(0, 100, len(times))
        shade, dash = OKABE[i % len(OKABE)], DASHES[i % len(DASHES)]
        ax.step(times, share, where="post", label=policy["name"], linewidth=1.5, color=shade, linestyle=dash)
    ax.set(xlabel="completion time [s]", ylabel="jobs [%]", ylim=(0, 103), xlim=(0, None))
    ax.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(-0.02, 0.98), borderpad=0)


def places(ax: Axes, data: Data) -> None:
    """Draw the shares of node-local, rack-local and off-rack maps, as one horizontal bar per policy."""
    names = [policy["name"] for policy in data["policies"]]
    rows = np.arange(len(names))
    left = np.zeros(len(names))
    for k, (label, shade) in enumerate(PLACES):
        share = np.array([100 * (policy["locality"]["tasks"][k] or 0.0) for policy in data["policies"]])
        ax.barh(rows, share, left=left, color=shade, label=label, height=0.5)
        left += share
    for row, name in enumerate(names):
        ax.text(0, row - 0.32, name, va="bottom", fontsize=7)
    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.6, -0.75)
    ax.set(xlabel="maps [%]", xlim=(0, 100))
    ax.legend(
        frameon=False,
        fontsize=7,
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(-0.02, 0.98),
        columnspacing=1.0,
        handlelength=1.2,
        borderpad=0,
    )


def slots(ax: Axes, data: Data, policy: Data) -> None:
    """Draw a row per slot with a box per attempt, in the color of the job.

    Shuffles are paler, failed attempts hatched. A large cluster has a band per rack, filled by the share of
    slots in use.
    """
    from matplotlib.colors import to_rgba_array

    if "bands" in policy:
        _bands(ax, data, policy)
        return
    a, rows = policy["attempts"], policy["rows"]
    row, state, job = (np.array(a[key], int) for key in ("row", "state", "job"))
    start, lasts, shuffled = (np.array(a[key], float) / 100 for key in ("start", "lasts", "shuffled"))
    palette = to_rgba_array([_job_colour(i) for i in (*range(len(data["jobs"])), -1)])
    many = len(row) > RASTER_FROM
    good, bad, fed = np.flatnonzero(state == 0), np.flatnonzero(state > 0), np.flatnonzero(shuffled > 0)
    _boxes(ax, start[good], lasts[good], row[good], rasterized=many, facecolors=palette[job[good]])
    shading = {"facecolors": palette[job[bad]], "alpha": 0.45, "hatch": None if many else "//////"}
    _boxes(ax, start[bad], lasts[bad], row[bad], rasterized=many, **shading)
    veil = np.minimum(shuffled, lasts)[fed]
    _boxes(ax, start[fed], veil, row[fed], rasterized=many, facecolors="white", alpha=0.55)
    nodes = list(dict.fromkeys(name for name, _, _ in rows))
    step = max(1, len(nodes) // 20)
    firsts = [next(i for i, (name, _, _) in enumerate(rows) if name == node) for node in nodes[::step]]
    ax.set_yticks(firsts, nodes[::step])
    ax.set(xlim=(0, data["end"]), ylim=(len(rows) - 0.4, -0.6), ylabel="slots by node")
    _faults(ax, policy)


def _bands(ax: Axes, data: Data, policy: Data) -> None:
    bands = policy["bands"]
    numbers = {job["job"]: i for i, job in enumerate(data["jobs"])}
    shades = [_job_colour(numbers.get(name, -1)) for name in bands["job"]["names"]]
    times = (np.arange(bands["bins"]) + 0.5) * data["end"] / bands["bins"]
    count = len(bands["names"])
    for band, series in enumerate(bands["job"]["series"]):
        foot = np.full(len(times), band + 0.45)
        for shade, part in zip(shades, series, strict=True):
            top = foot - 0.9 * np.array(part) / 100
            ax.fill_between(times, foot, top, color=shade, linewidth=0, step="mid")
            foot = top
    step = max(1, count // 12)
    ax.set_yticks(range(0, count, step), bands["names"][::step])
    ax.set(xlim=(0, data["end"]), ylim=(count - 0.4, -0.6), ylabel="slots in use")
    _faults(ax, policy)


def _boxes(ax: Axes, start: np.ndarray, lasts: np.ndarray, row: np.ndarray, **style: Any) -> None:
    """Add a box per attempt, apart from neighbors. One collection is much faster than separate bars."""
    from matplotlib.collections import PolyCollection

    left, right, top, foot = start, start + lasts, row - 0.42, row + 0.42
    corners = ((left, top), (right, top), (right, foot), (left, foot))
    boxes: Any = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    ax.add_collection(PolyCollection(boxes, linewidths=0, **style), autolim=False)


def running(ax: Axes, data: Data, policy: Data) -> None:
    area = policy["areas"]["job"]
    numbers = {job["job"]: i for i, job in enumerate(data["jobs"])}
    shades = [_job_colour(numbers.get(name, -1)) for name in area["names"]]
    if area["series"]:
        ax.stackplot(_times(data), np.array(area["series"]), colors=shades, linewidth=0)
    ax.set(xlim=(0, data["end"]), ylim=(0, None), ylabel="running tasks")
    _faults(ax, policy)


def shares(ax: Axes, data: Data, policy: Data) -> None:
    """Draw the ratio of each user's running slots to the user's fair share, over time."""
    numbers = {user: i for i, user in enumerate(data["users"])}
    for user, series in zip(policy["shares"]["users"], policy["shares"]["series"], strict=True):
        values = np.array([np.nan if v is None else v for v in series])
        ax.plot(_times(data), values, color=_job_colour(numbers.get(user, -1)), label=user, linewidth=1)
    ax.axhline(1, color="#888888", linestyle=":", linewidth=0.8)
    ax.set(xlim=(0, data["end"]), ylim=(0, None), ylabel="ratio to fair share")
    if len(numbers) <= 8 and numbers:
        ax.legend(frameon=False, fontsize=6, ncols=4, loc="upper right")


def cpu(ax: Axes, data: Data, policy: Data) -> None:
    """Draw the CPU use of the mean and the busiest node over time, and the limit."""
    for name, label, shade in (("cpu_most", "busiest node", OKABE[1]), ("cpu_mean", "mean", OKABE[0])):
        line = np.array([np.nan if v is None else v for v in policy["use"][name]], float)
        ax.plot(_times(data), line, color=shade, linewidth=1, label=label)
    ax.axhline(100, color=OKABE[5], linestyle="--", linewidth=0.9, label=f"limit: {policy['limits']['cpu']}")
    ax.set(xlim=(0, data["end"]), ylim=(0, None), ylabel="CPU use [% of limit]")
    ax.legend(frameon=False, fontsize=6, ncols=3, loc="lower left")
    _faults(ax, policy)


def _overview(path: Path, run: RunFile, data: Data) -> Path:
    """Draw overview.png: slots of up to four policies on the left, completion times and locality on the right."""
    from matplotlib import pyplot as plt

    policies = data["policies"][:4]
    figure = plt.figure(figsize=(10, 1.1 + 1.75 * len(policies)), dpi=140, layout="constrained")
    left, right = (figure.add_subfigure(spot) for spot in figure.add_gridspec(1, 2, width_ratios=[2.2, 1]))
    lanes(left, data, policies)
    above, below = right.subplots(2, 1, height_ratios=[3, 2])
    completion(above, data)
    places(below, data)
    for ax, title in ((above, "completion times"), (below, "locality of maps")):
        ax.set_title(
            title,
            loc="left",
            fontsize=9,
            fontweight="bold",
            pad=18 if ax is below else 6 + 10 * len(data["policies"]),
        )
    figure.suptitle(f"{run.scenario.get('name', '')}: {len(run.nodes)} nodes, {run.machines}", fontsize=10)
    return _save(figure, path)


def lanes(figure: FigureBase, data: Data, policies: Sequence[Data]) -> None:
    """Draw the slots of the policies, one policy above the other, with the policy's name and makespan as title."""
    axes = figure.subplots(len(policies), 1, sharex=True, squeeze=False)[:, 0]
    for ax, policy in zip(axes, policies, strict=True):
        slots(ax, data, policy)
        ax.set_title(overview_title(policy), loc="left", fontsize=9, fontweight="bold")
    axes[-1].set_xlabel("time [s]")


def overview_title(policy: Data) -> str:
    return policy["name"] + (f": {seconds(policy['makespan'])} s" if policy["makespan"] is not None else "")


def _stacked(path: Path, data: Data, draw: Callable[[Axes, Data, Data], None]) -> Path:
    from matplotlib import pyplot as plt

    policies = data["policies"]
    size = (6.5, 0.5 + 1.9 * len(policies))
    figure, axes = plt.subplots(
        len(policies), 1, figsize=size, sharex=True, squeeze=False, layout="constrained"
    )
    for ax, policy in zip(axes[:, 0], policies, strict=True):
        draw(ax, data, policy)
        ax.set_title(policy["name"], loc="left", fontsize=8, fontweight="bold")
    axes[-1, 0].set_xlabel("time [s]")
    return _save(figure, path)


def _single(path: Path, size: tuple[float, float], draw: Callable[[Axes], None]) -> Path:
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=size, layout="constrained")
    draw(ax)
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> Path:
    from matplotlib import pyplot as plt

    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, metadata=metadata)
    plt.close(figure)
    return path


def _faults(ax: Axes, policy: Data) -> None:
    for t, _, _, until in policy["faults"]:
        ax.axvline(t, color="#D55E00", linewidth=0.9, linestyle="--")
        if until is not None:
            ax.axvspan(t, until, color="#D55E00", alpha=0.08, linewidth=0)


def _times(data: Data) -> np.ndarray:
    return (np.arange(data["bins"]) + 0.5) * data["end"] / data["bins"]


def _job_colour(index: int) -> str:
    """Return the color of this job in the report: seven, then darker, then lighter ones; gray below 0."""
    if index < 0:
        return "#999999"
    base, turn = OKABE[index % len(OKABE)], index // len(OKABE) % 3
    if turn == 0:
        return base
    towards = 0 if turn == 1 else 255
    parts = [int(base[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(part * 0.62 + towards * 0.38):02x}" for part in parts)
