"""The applications, by name."""

from __future__ import annotations

from schedbed.tasks.apps import (
    bayes,
    bbp,
    combine,
    etl,
    grep,
    pi,
    randomtextwriter,
    select,
    sort,
    synthetic,
    teragen,
    tfidf,
    twitter,
    wikitrends,
    wordcount,
)
from schedbed.tasks.apps.app import App, Parameter

_KNOWN = (
    *(wordcount, sort, grep, pi, bbp, randomtextwriter, teragen, etl, combine, select),
    *(bayes, tfidf, wikitrends, twitter, synthetic),
)
APPS: dict[str, App] = {each.APP.name: each.APP for each in _KNOWN}

__all__ = ["APPS", "App", "Parameter"]
