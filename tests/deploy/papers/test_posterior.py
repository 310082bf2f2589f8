"""Tests drawn clusters that agree with a paper's values: the draws, when a draw ends early, the shares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from schedbed.deploy.cli import main
from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.catalogue import PAPERS
from schedbed.deploy.papers.posterior import claim_plots, claim_shares, posterior_page, sampling
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import OpenParameter, Posterior, PrintedFit
from schedbed.deploy.papers.posterior.sampling import Draw, PlannedDraw
from schedbed.tasks.errors import BadInput

WITH_PRIOR = [paper for paper in PAPERS if paper_file.load(paper).posterior is not None]
SEEK = {"what": "seek", "unit": "share", "why": "disks", "low": 0.01, "high": 0.2}


def test_the_five_papers_declare_what_they_leave_open() -> None:
    assert WITH_PRIOR == ["polo2011", "xu2015", "liu2015", "lakshmi2019", "verma2011"]


@pytest.mark.parametrize("paper", WITH_PRIOR)
def test_draws_are_in_their_ranges_and_the_same_for_a_seed(paper: str) -> None:
    declared = sampling.posterior_of(paper)
    first, again, other = (declared.drawn(paper, number, seed) for number, seed in ((1, 1), (1, 1), (1, 2)))
    assert first == again != other
    for number in range(50):
        for key, value in declared.drawn(paper, number, 1).items():
            each = declared.prior[key]
            if each.choices:
                assert value in each.choices
            else:
                assert each.low is not None and each.high is not None and each.low <= value <= each.high


@pytest.mark.parametrize("paper", WITH_PRIOR)
def test_claims_are_values_of_the_paper_with_a_range(paper: str) -> None:
    said = paper_file.load(paper)
    for key in sampling.posterior_of(paper).claims:
        experiment, _, name = key.partition("/")
        low, high = said.experiments[experiment].values[name].bounds()
        assert low <= high


def test_a_logarithmic_range_has_as_many_draws_below_its_geometric_mean() -> None:
    wide = OpenParameter.model_validate({**SEEK, "low": 1, "high": 100, "logarithmic": True})
    drawn = [wide.draw(1, number) for number in range(400)]
    assert 150 < sum(each < 10 for each in drawn) < 250


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"low": None}, "expected low and high, or choices"),
        ({"choices": [1, 2]}, "expected low and high, or choices"),
        ({"low": 1}, "expected low below high"),
        ({"low": 0, "logarithmic": True}, "expected low above 0"),
        ({"why": ""}, "at least 1 character"),
    ],
)
def test_a_prior_that_says_nothing_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        OpenParameter.model_validate({**SEEK, **change})


def test_a_share_of_a_printed_number_needs_the_number() -> None:
    with pytest.raises(ValidationError, match="within: needs a number of the paper"):
        PrintedFit.model_validate({"what": "a", "where": "Table 1", "why": "b", "holds": {"within": 0.25}})


DECLARED = Posterior.model_validate(
    {
        "about": "a test",
        "draws": 4,
        "prior": {"seek": SEEK},
        "fits": {
            "first": {"what": "a", "where": "Table 1", "why": "b", "value": 10, "holds": {"within": 0.1}},
            "second": {"what": "c", "where": "Table 1", "why": "d", "holds": {"at_least": 5}},
        },
        "claims": ["fig3/ahead"],
    }
)


@pytest.mark.parametrize(
    ("values", "misses", "asked", "claims"),
    [
        ({"first": 12.0, "second": 7.0}, "first", ["first"], {}),
        ({"first": 10.5, "second": 4.0}, "second", ["first", "second"], {}),
        ({"first": 10.5, "second": 7.0}, "", ["first", "second", "claims"], {"fig3/ahead": 3.0}),
    ],
)
def test_a_draw_ends_with_its_first_miss(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: Mapping[str, float],
    misses: str,
    asked: list[str],
    claims: dict[str, float],
) -> None:
    done: list[str] = []

    def fits(bench: Bench, drawn: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        assert not bench.live and bench.repeats == 1 and 0.01 <= drawn["seek"] <= 0.2
        for key, value in values.items():
            done.append(key)
            yield key, value

    def measure(bench: Bench, drawn: Mapping[str, float]) -> Mapping[str, float]:
        done.append("claims")
        return {"fig3/ahead": 3.0}

    monkeypatch.setattr(sampling, "posterior_of", lambda _: DECLARED)
    monkeypatch.setattr(sampling, "mini_of", lambda _: Mini(fits=fits, claims=measure))
    draw = sampling.one(PlannedDraw(paper="polo2011", number=3, seed=1), tmp_path)
    assert (draw.misses, done, draw.claims) == (misses, asked, claims)


def test_a_fit_that_a_paper_does_not_declare_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "posterior_of", lambda _: DECLARED)
    mini = Mini(fits=lambda *_: iter([("first", 10.0)]), claims=lambda *_: {})
    monkeypatch.setattr(sampling, "mini_of", lambda _: mini)
    with pytest.raises(KeyError, match="polo2011: fits"):
        sampling.one(PlannedDraw(paper="polo2011", number=3, seed=1), tmp_path)


def test_shares_have_exact_intervals() -> None:
    """Intervals of shares are exact: 0 of 10 means at most 31%, and 0 of 0 anything from 0 to 1."""
    none, half = claim_shares.share(0, 10), claim_shares.share(5, 10)
    assert (none.low, none.high) == (0, pytest.approx(0.3085, abs=1e-4))
    assert (half.low, half.high) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))
    assert (claim_shares.share(0, 0).low, claim_shares.share(0, 0).high) == (0, 1)
    assert str(half) == "5 of 10, 50% [19, 81]"


def draws() -> list[dict[str, Any]]:
    """Return ten drawn clusters for polo2011: four miss the first value, six agree, and RAS is better on two
    of these.
    """
    declared = sampling.posterior_of("polo2011")
    made = []
    for number in range(10):
        fits = number >= 4
        claims = {key: float(number - 7) for key in declared.claims} if fits else {}
        made.append(
            Draw(
                number=number, cluster={}, fits={"fair_four": 1.0}, misses="" if fits else "fair_four", claims=claims
            ).to_json()
        )  # fmt: skip
    return made


def test_only_clusters_that_fit_count_for_a_claim(tmp_path: Path) -> None:
    ahead, *_ = found = claim_shares.shares_of_claims("polo2011", draws())
    assert (ahead.share.count, ahead.share.of, ahead.middle) == (3, 6, -0.5)
    assert claim_shares.misses(draws()) == {"fair_four": 4}
    assert "6 of 10, 60% [26, 88]" in posterior_page.summary("polo2011", draws())
    assert "say nothing about the claims" in posterior_page.summary("polo2011", draws())
    claim_plots.draw(tmp_path / "plots.svg", found)
    claim_plots.draw(tmp_path / "none.svg", claim_shares.shares_of_claims("polo2011", []))
    drawn = (tmp_path / "plots.svg").read_text()
    assert drawn.count('<g id="axes_') == len(found)


def test_the_page_has_claims_fits_and_reasons_and_needs_no_other_file(tmp_path: Path) -> None:
    claim_plots.draw(tmp_path / "polo2011.svg", claim_shares.shares_of_claims("polo2011", draws()))
    content = {
        "paper": "polo2011",
        "seed": 1,
        "wall_start": "today",
        "figure": "polo2011.svg",
        "draws": draws(),
    }
    text = posterior_page.text(content, tmp_path)
    declared = sampling.posterior_of("polo2011")
    for each in (*declared.prior.values(), *declared.fits.values()):
        assert escape(each.why) in text
    assert "3 of 6, 50%" in text and "data:image/svg+xml;base64," in text
    for outside in ('src="http', "<link", "<script"):
        assert outside not in text


@pytest.mark.long  # simulates two draws in processes of their own
def test_the_command_simulates_draws_on_all_cores_and_more_draws_add_to_fewer(tmp_path: Path) -> None:
    found = []
    for count in (1, 2):
        out = tmp_path / f"out{count}"
        result = call("--posterior", "polo2011", "--draws", count, "--out", out)
        assert result.exit_code == 0, result.output
        content = json.loads((out / "posterior.json").read_text())
        assert (out / "index.html").is_file() and len(content["draws"]) == count
        found.append([{**draw, "took_s": 0} for draw in content["draws"]])
    assert found[0] == found[1][:1]
    again = call("--posterior", "polo2011", "--draws", 1, "--out", tmp_path / "out1")
    assert again.exit_code == 2 and "holds a posterior already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--posterior"], "expected one of polo2011"),
        (["--posterior", "verma2012"], "expected one of polo2011"),
        (["--posterior", "chapter3"], "chapter3/paper.yaml declares no prior"),
        (["--posterior", "polo2011", "--all"], "expected PAPER, --draws, --seed and --out only"),
        (["polo2011", "--draws", 3], "expected --posterior PAPER"),
    ],
)
def test_what_has_no_posterior_is_told_in_a_line(arguments: list[Any], told: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and told in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_a_paper_without_a_prior_is_bad_input() -> None:
    with pytest.raises(BadInput, match="declares no prior"):
        sampling.posterior_of("chapter3")


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(main.app, ["reproduce", *map(str, arguments)])
