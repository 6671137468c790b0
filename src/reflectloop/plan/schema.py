"""Generates the JSON Schema of the native plan form from the models."""

from __future__ import annotations

from typing import Any

from reflectloop.plan.model import PlanFile

DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def plan_schema() -> dict[str, Any]:
    return {**DIALECT, **PlanFile.model_json_schema()}
