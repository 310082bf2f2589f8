"""The preset `hadoop1-fair`: the fair scheduler of Hadoop 1.0.3 with its defaults.

Pools by user, ties by name, pre-emption looked at every 15 s, a wait of 1.5 heartbeats of 3 s for each level of
locality (FairScheduler's automatic delay), and tasks spread over the nodes. Not modeled: waiting for the
initialization of jobs (`framework: hadoop1` has it), and the event log.
"""

from __future__ import annotations

from schedbed.scheduler.registry.declarations import Named

POLICY = Named(
    name="hadoop1-fair",
    summary="Hadoop 1's fair scheduler as it is by default: pools by name, delay scheduling, spread tasks.",
    paper="Hadoop 1.0.3, contrib/fairscheduler",
    order="fair",
    locality="delay",
    admission="spread",
    defaults={"ties": "name", "look": "15s", "node_wait": "4500ms", "rack_wait": "4500ms"},
    rank=25,
)
