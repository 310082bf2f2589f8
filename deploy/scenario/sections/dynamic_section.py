"""`blocks: {dynamic: ...}`: the schemes that create replicas while jobs run, and their parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from schedbed.deploy.scenario.scalars import Count, Duration, Factor, Section, says


class Dare(Section):
    """`dynamic: {dare: {p: 0.3, budget: 0.2}}`: nodes keep blocks that their maps fetched from other nodes.

    The share `p` of the maps that fetch their block keep it as a replica. These replicas use at most the
    share `budget` of the bytes of all inputs.
    """

    p: Annotated[Factor, says("share of the maps that leave a replica of the block they fetch")] = 0.3
    budget: Annotated[Factor, says("share of the inputs' bytes that such replicas take at most")] = 0.2


class DareChoice(Section):
    """`dynamic: {dare: ...}`: the replication scheme DARE with the given parameters."""

    dare: Annotated[Dare, says("the parameters of DARE")]


class Scarlett(Section):
    """`dynamic: {scarlett: {epoch: 60s, delta: 1, budget: 0.2}}`: popular inputs have more replicas.

    Every `epoch`, the number of replicas of each input is changed to `delta` more than the largest number of
    jobs that read the input at the same time. The additional replicas use at most the share `budget` of the
    bytes of all inputs.
    """

    epoch: Annotated[Duration, Field(gt=0), says("time between changes of the numbers of replicas")] = 60.0
    delta: Annotated[Count, says("replicas beyond the most jobs that read an input at a time")] = 1
    budget: Annotated[Factor, says("share of the inputs' bytes that such replicas take at most")] = 0.2


class ScarlettChoice(Section):
    """`dynamic: {scarlett: ...}`: the replication scheme Scarlett with the given parameters."""

    scarlett: Annotated[Scarlett, says("the parameters of Scarlett")]


class Cdrm(Section):
    """`dynamic: {cdrm: {epoch: 60s, availability: 0.99, failure: 0.1}}`: replicas for a given availability.

    Every `epoch`, each input is given the fewest replicas that reach the `availability`, if each node is down
    with the probability `failure`. New replicas are placed on the nodes that are least likely to be busy.
    """

    epoch: Annotated[Duration, Field(gt=0), says("time between changes of the numbers of replicas")] = 60.0
    availability: Annotated[
        float, Field(gt=0, lt=1), says("probability that all blocks of an input are there")
    ] = 0.99
    failure: Annotated[float, Field(gt=0, lt=1), says("probability that a node is not there")] = 0.1


class CdrmChoice(Section):
    """`dynamic: {cdrm: ...}`: the replication scheme CDRM with the given parameters."""

    cdrm: Annotated[Cdrm, says("the parameters of CDRM")]


_DYNAMIC_FORMS = {"scarlett": ScarlettChoice, "cdrm": CdrmChoice, "dare": DareChoice}


def _dynamic_form(value: object) -> str:
    for name, choice in _DYNAMIC_FORMS.items():
        if isinstance(value, choice) or (isinstance(value, dict) and name in value):
            return name
    return "dare" if isinstance(value, dict) else "name"


Dynamic = Annotated[
    Annotated[Literal["none", "dare", "scarlett", "cdrm"], Tag("name")]
    | Annotated[DareChoice, Tag("dare")]
    | Annotated[ScarlettChoice, Tag("scarlett")]
    | Annotated[CdrmChoice, Tag("cdrm")],
    Discriminator(_dynamic_form),
]
