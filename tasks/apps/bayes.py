"""Trains a naive Bayes classifier's counts from labelled pages, as the feature step of Mahout's trainer.

A word of a page weighs log(1 + n) / sqrt(sum of n^2 over the page's words), n being how often it is there. Left out:
n-grams above single words, and the later jobs that turn the sums into a model.
"""

from __future__ import annotations

import math
from collections import Counter

from schedbed.tasks.apps.app import App
from schedbed.tasks.apps.counting import KeyCounts, reduce_counts
from schedbed.tasks.apps.pages import pages
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.spill_formats import CountLines

MILLIONTHS = 1_000_000  # weights are added as whole millionths: the sum does not depend on the order


class FeatureCounts(KeyCounts):
    """Sums weights and counts pages by label and word, as a map's collector; reduces add them up."""

    def feed(self, chunk: bytes) -> None:
        """Take the pages of a chunk of whole lines."""
        counts = self.counts
        for _, label, text in pages(chunk):
            counts[b"label\t" + label] += 1
            words = Counter(text.split())
            norm = math.sqrt(sum(count * count for count in words.values()))
            for word, count in words.items():
                key = b"\t%b\t%b" % (label, word)
                counts[b"pages" + key] += 1
                counts[b"weight" + key] += round(MILLIONTHS * math.log1p(count) / norm)


def _map(task: MapTask) -> None:
    task.collect("text", FeatureCounts(task.spec.reduces), CountLines())


APP = App(
    name="bayes",
    paper="verma2011",
    summary="sums what a naive Bayes classifier learns from pages title<TAB>label<TAB>text; output lines "
    "label<TAB>LABEL<TAB>pages, pages<TAB>LABEL<TAB>WORD<TAB>pages, weight<TAB>LABEL<TAB>WORD<TAB>millionths",
    input="documents",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
)
