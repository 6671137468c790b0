"""Generates the JSON Schemas of requests and responses from the models."""

from __future__ import annotations

from typing import Any

from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.response import Response

DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def request_schema() -> dict[str, Any]:
    return {**DIALECT, **FileopsRequest.model_json_schema()}


def response_schema() -> dict[str, Any]:
    return {**DIALECT, **Response.model_json_schema(mode="serialization")}
