"""Checks an object against a reduced copy of the schema that its API server has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

SCHEMAS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("schemas.yaml").read_text())

TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def object_faults(document: dict[str, Any]) -> list[str]:
    """What an API server would refuse in an object of a kind in `schemas.yaml`."""
    known = SCHEMAS[document["kind"]]
    faults = [*_faults(document.get("spec"), known["spec"], "spec")]
    if document["apiVersion"] != known["apiVersion"]:
        faults.append(f"apiVersion: {document['apiVersion']}")
    if extra := document.keys() - {"apiVersion", "kind", "metadata", "spec"}:
        faults.append(f"unknown: {sorted(extra)}")
    return faults


def _faults(value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string"):
        if type(value) not in (int, str):
            yield f"{at}: a {type(value).__name__}"
        return
    if type(value) is not TYPES[schema["type"]]:
        yield f"{at}: a {type(value).__name__}"
        return
    yield from _bounds(value, schema, at)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, schema["items"], f"{at}[{index}]")
    if isinstance(value, dict):
        yield from (f"{at}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is None:
                yield f"{at}.{name}: unknown"
            else:
                yield from _faults(item, inner, f"{at}.{name}")


def _bounds(value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
    if value not in schema.get("enum", [value]):
        yield f"{at}: {value} is none of {schema['enum']}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value} is out of bounds"
    if isinstance(value, str | list) and len(value) > schema.get("maxLength", len(value)):
        yield f"{at}: too long"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        yield f"{at}: too few"
