"""The admin API's description, made from its table of routes and the structs that it answers."""

from typing import Any

import msgspec

from holdfast import __version__
from holdfast.console.routes import OPEN, Row

_REFUSAL = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
    "required": ["code", "message"],
}
_QUERIES = {"/api/queues": ("account", "prefix", "after", "limit")}


def describe(rows: list[Row]) -> dict[str, Any]:
    answers = [row.answer for row in rows if row.answer is not None]
    schemas, components = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, answers), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        schema = schema_of[str(row.answer)] if row.answer is not None else None
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast admin API",
            "version": __version__,
            "description": "Requests are signed with AWS Signature Version 4 for the service `holdfast`.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Refusal": _REFUSAL},
            "securitySchemes": {
                "signature": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "SigV4"},
                "metrics": {"type": "http", "scheme": "bearer", "description": "DATA/metrics.token"},
            },
        },
    }


def _operation(row: Row, schema: dict[str, Any] | None) -> dict[str, Any]:
    media = {"application/json": {"schema": schema}} if schema is not None else {"text/plain": {}}
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    operation: dict[str, Any] = {
        "summary": row.summary,
        "responses": {"200": {"description": "Done.", "content": media}},
        "security": [],
    }
    if row.path in _QUERIES:
        operation["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in _QUERIES[row.path]
        ]
    if row.right != OPEN:
        operation["security"] = [{"signature": []}, *([{"metrics": []}] if row.is_metrics else [])]
        operation["description"] = f"Needs holdfast:{row.right}."
        operation["responses"]["403"] = {"description": "Not signed, or not allowed.", "content": refused}
    return operation
