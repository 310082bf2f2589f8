"""The counts of claims and the marks of their remarks."""

from schedbed.deploy.papers.terminal import counted, marks, without_task
from schedbed.deploy.papers.verdict import CONTRADICTED, HOLDS, OPEN


def test_claims_are_counted_by_kind_and_verdict() -> None:
    """Claims are counted by kind and verdict. A value without a criterion is no claim."""
    claims = [
        ("input", HOLDS),
        ("outcome", OPEN),
        ("outcome", OPEN),
        ("outcome", CONTRADICTED),
        ("outcome", ""),
    ]
    rows = [
        {"kind": kind, "verdict": verdict, "wanted": "x" if verdict else "", "no_task": kind == "input"}
        for kind, verdict in claims
    ]
    assert list(counted(rows).items()) == [("outcome", [0, 2, 1]), ("input", [1, 0, 0])]
    assert without_task(rows) == {"input": 1}


def test_more_remarks_than_letters_have_marks_of_two_letters() -> None:
    given = marks({"chosen": f"reason {number}"} for number in range(28))
    assert list(given.values())[:2] == ["a", "b"] and list(given.values())[25:] == ["z", "aa", "ab"]
