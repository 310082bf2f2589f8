"""The JSON Schema of a scenario file, built from the pydantic models of its keys."""

from __future__ import annotations

from typing import Any

from schedbed.deploy.scenario.models import Scenario

DRAFT = "https://json-schema.org/draft/2020-12/schema"
BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    return {"$schema": DRAFT, **_plain(Scenario.model_json_schema(by_alias=True))}


def _plain(value: Any) -> Any:
    """Drop pydantic's titles, and give bounds JSON Schema's names, such as `minimum` for `ge`."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    schema = {BOUNDS.get(key, key): _plain(each) for key, each in value.items() if key != "title"}
    return {key: " ".join(each.split()) if key == "description" else each for key, each in schema.items()}
