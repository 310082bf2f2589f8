"""Gridmix's combiner job (polo2011's Combine): a word count whose maps add up what they can before the shuffle.

Gridmix builds it from Hadoop's wordcount with the reduce as combiner, and so is this; it has a name, and with it a
profile, of its own.
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.tasks.apps import wordcount

APP = replace(
    wordcount.APP,
    name="combine",
    paper="polo2011",
    summary="counts words as Gridmix's combiner job: maps combine what they count; output as wordcount's",
)
