"""The OpenAPI document of a model says what `generate` takes."""

from collections.abc import AsyncIterator
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import BaseModel, Field

from inferstream import App, ModelSettings, Settings
from inferstream.ext.calls import Described
from inferstream.ext.runtimes import Signature
from inferstream.plugins.page.openapi import describe
from inferstream.types import MetadataModelResponse, MetadataTensor

app = App()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


@app.model
def every(
    text: str,
    count: Annotated[int, Field(ge=1, le=9, description="How many.")] = 3,
    mode: Literal["up", "down"] = "up",
    color: Color = Color.RED,
    points: list[Point] | None = None,
    matrix: npt.NDArray[np.float32] | None = None,
    raw: bytes = b"",
    flags: list[bool] | None = None,
    limit: float | None = 1.5,
) -> str:
    """Say everything.

    Args:
        text: What to say.
    """
    return text


@app.model
async def running(xs: AsyncIterator[int], start: int = 0) -> AsyncIterator[int]:
    async for x in xs:
        yield x + start


def document(signature: Signature) -> dict[str, Any]:
    metadata = MetadataModelResponse(
        name="m", platform="", inputs=[*(signature.inputs or signature.described)]
    )
    capabilities: Any = SimpleNamespace(predict=True, streams=False, steps=False, gathers=False)
    described = Described(signature, capabilities, ModelSettings(implementation="m.M"))
    return describe(Settings(), "", metadata, None, described)


def flat(found: dict[str, Any], action: str = "generate") -> dict[str, Any]:
    body = found["paths"][f"/v2/models/m/{action}"]["post"]["requestBody"]
    schema, v2 = body["content"]["application/json"]["schema"]["anyOf"]
    assert v2 == {"$ref": "#/components/schemas/InferenceRequest"}
    return schema


def test_arguments_have_defaults_descriptions_bounds_and_choices() -> None:
    found = document(app["every"].signature())
    schema = flat(found)
    assert schema == flat(found, "generate_stream")
    assert schema["required"] == ["text"]
    properties = schema["properties"]
    assert properties["text"] == {"type": "string", "description": "What to say."}
    count = properties["count"]
    assert (count["type"], count["minimum"], count["maximum"]) == ("integer", 1, 9)
    assert (count["default"], count["description"]) == (3, "How many.")
    assert properties["mode"] == {"type": "string", "enum": ["up", "down"], "default": "up"}
    assert properties["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert properties["raw"]["contentEncoding"] == "base64"
    assert properties["flags"] == {"type": ["array", "null"], "items": {"type": "boolean"}, "default": None}
    assert properties["limit"] == {"type": ["number", "null"], "default": 1.5}
    assert found["info"]["description"].startswith("Say everything.")


def test_definitions_are_document_components() -> None:
    found = document(app["every"].signature())
    references = _references(flat(found))
    assert references
    for reference in references:
        name = reference.removeprefix("#/components/schemas/")
        assert name in found["components"]["schemas"], reference


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for member in value.values() for each in _references(member)]
    return [each for member in value for each in _references(member)] if isinstance(value, list) else []


def test_stream_argument_is_marked_and_optional() -> None:
    schema = flat(document(app["running"].signature()))
    assert schema["properties"]["xs"] == {"type": "integer", "x-stream": True}
    assert "required" not in schema


@pytest.mark.parametrize(
    ("datatype", "shape", "wanted"),
    [
        ("BYTES", [-1], {"type": "array", "items": {"type": "string"}}),
        (
            "FP32",
            [-1, 2],
            {
                "type": "array",
                "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
            },
        ),
        ("UINT8", [1], {"type": "integer"}),
    ],
)
def test_declared_tensors_are_shaped_lists(datatype: str, shape: list[int], wanted: dict) -> None:
    tensor = MetadataTensor(name="x", datatype=datatype, shape=shape)
    assert flat(document(Signature((tensor,)))) == {"type": "object", "properties": {"x": wanted}}


def test_undeclared_model_accepts_any_request() -> None:
    body = document(Signature())["paths"]["/v2/models/m/generate"]["post"]["requestBody"]
    assert body["content"]["application/json"] == {
        "schema": {"$ref": "#/components/schemas/InferenceRequest"}
    }
