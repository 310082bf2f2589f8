"""The display of a `Result` in a notebook: the comparison of the policies, and a plot of the slots over time."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STYLE = """<style>
.schedbed td { text-align: right } .schedbed .best { font-weight: bold }
.schedbed .ci, .schedbed .diff { margin-left: 0.5em; opacity: 0.6 }
.schedbed img { max-width: 100% } .schedbed p { opacity: 0.8 }
</style>"""
POLICIES_DRAWN = 6
JOBS_NAMED = 7
"""The number of jobs in the legend, which is the number of different colors."""


def result_html(folder: Path, summary: Mapping[str, Any]) -> str:
    """Return a run's comparison table and its plot of the slots as HTML."""
    from schedbed.deploy.results.page.report_tables import comparison_html

    return f'{STYLE}<div class="schedbed">{comparison_html(summary)}{_lanes_html(folder, summary)}</div>'


def _lanes_html(folder: Path, summary: Mapping[str, Any]) -> str:
    from schedbed.deploy.results.page import report_data
    from schedbed.deploy.results.recorded import Recorded
    from schedbed.deploy.results.runfile import RunFile

    run = RunFile.load(folder)
    data = report_data.build(run, Recorded(folder, run))
    report_data.add_figures(data, summary)
    if not data["policies"]:
        return ""
    picture = base64.b64encode(_png(data)).decode()
    told = "Slots over time, one picture a policy: a box is an attempt (paler: shuffles, hatched: did not succeed)."
    more = len(data["policies"]) - POLICIES_DRAWN
    if more > 0:
        told += f" {more} more policies are in <code>report()</code>."
    return f'<p>{told}</p><img alt="lanes of slots" src="data:image/png;base64,{picture}">'


def _png(data: Mapping[str, Any]) -> bytes:
    """Return the plot of the slots as PNG, without `pyplot`, which would affect the user's plots."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from schedbed.deploy.results import plots

    policies = data["policies"][:POLICIES_DRAWN]
    with matplotlib.rc_context(plots.RC):
        figure = Figure(figsize=(9, 0.8 + 1.7 * len(policies)), dpi=90, layout="constrained")
        plots.lanes(figure, data, policies)
        named = zip(data["jobs"], plots.OKABE[:JOBS_NAMED], strict=False)
        patches = [Patch(color=color, label=job["name"]) for job, color in named]
        left_out = len(data["jobs"]) - len(patches)
        title = f"jobs (and {left_out} more)" if left_out > 0 else "jobs"
        figure.legend(handles=patches, title=title, loc="outside right upper", frameon=False)
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
    return picture.getvalue()
