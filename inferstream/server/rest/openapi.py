"""OpenAPI documents of the server and of one model, and a page that shows them."""

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fastapi import Response
from pydantic.json_schema import models_json_schema

from ...settings import Settings
from ...signature import Signature
from ...types import (
    InferenceErrorResponse,
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataServerResponse,
)
from .flat_schema import flat_schema
from .text_paths import text_paths

_SCHEMAS = (
    InferenceRequest,
    InferenceResponse,
    InferenceErrorResponse,
    MetadataModelResponse,
    MetadataServerResponse,
)


def describe(
    settings: Settings,
    prefix: str,
    model: MetadataModelResponse | None = None,
    version: str | None = None,
    signature: Signature | None = None,
) -> dict[str, Any]:
    """The OpenAPI 3.1 document of every route, or of the routes of one model with its tensors as the example.

    `prefix` is where clients find the routes. The docstring of the model's author is the description.
    """
    title = settings.server_name
    base, parameters = "/v2/models/{model_name}", [_path_parameter("model_name")]
    if model is not None:
        title = f"Data Plane for Model {model.name}" + (f" ({version})" if version else "")
        base, parameters = f"/v2/models/{model.name}", []
        if version:
            base += f"/versions/{version}"
    flat, components = _flat(model, signature)
    paths = _model_paths(base, parameters, model, flat)
    if model is None:
        versioned = [*parameters, _path_parameter("model_version")]
        paths |= _model_paths(f"{base}/versions/{{model_version}}", versioned, None)
        paths |= _server_paths() | text_paths()
    described = {"description": signature.doc} if signature is not None and signature.doc else {}
    _, schemas = models_json_schema(
        [(schema, "validation") for schema in _SCHEMAS], ref_template="#/components/schemas/{model}"
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": settings.server_version} | described,
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {"schemas": schemas["$defs"] | components},
    }


def _flat(
    model: MetadataModelResponse | None, signature: Signature | None
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The body of `generate` as flat JSON, and the components of its schema; None for a model without inputs."""
    if model is None or not model.inputs:
        return None, {}
    schema, components = flat_schema(model.inputs, signature is not None and signature.function)
    either = {"anyOf": [schema, {"$ref": "#/components/schemas/InferenceRequest"}]}
    return {"application/json": {"schema": either}}, components


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _reference(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _operation(
    summary: str, parameters: list[dict[str, Any]], content: dict[str, Any], **more: Any
) -> dict[str, Any]:
    responses = {"200": {"description": "Success", "content": content}}
    responses["default"] = {"description": "Failure", "content": _reference("InferenceErrorResponse")}
    return {"summary": summary, "parameters": parameters, "responses": responses, **more}


def _model_paths(
    base: str,
    parameters: list[dict[str, Any]],
    model: MetadataModelResponse | None,
    flat: dict[str, Any] | None = None,
) -> dict[str, Any]:
    body: dict[str, Any] = {"application/json": dict(_reference("InferenceRequest")["application/json"])}
    if model is not None and model.inputs:
        body["application/json"]["example"] = _example(model)
    sent = {"required": True, "content": body}
    if flat is not None:
        flat["application/json"]["example"] = body["application/json"]["example"]
    generated = {"required": True, "content": flat or body}
    event = {"text/event-stream": {"schema": {"type": "string", "description": "InferenceResponse events"}}}
    whole = _reference("InferenceResponse")
    plain = {"application/json": {"schema": {"type": "object"}}}
    return {
        base: {"get": _operation("Metadata of the model", parameters, _reference("MetadataModelResponse"))},
        f"{base}/ready": {"get": _operation("Whether the model is ready", parameters, plain)},
        f"{base}/stats": {"get": _operation("Counts and durations of the model", parameters, plain)},
        f"{base}/infer": {"post": _operation("One answer", parameters, whole, requestBody=sent)},
        f"{base}/generate": {"post": _operation("One answer", parameters, whole, requestBody=generated)},
        f"{base}/infer_stream": {
            "post": _operation("A stream of answers", parameters, event, requestBody=sent)
        },
        f"{base}/generate_stream": {
            "post": _operation("A stream of answers", parameters, event, requestBody=generated)
        },
        f"{base}/stream": {"get": _upgrade(parameters, body["application/json"].get("example"))},
    }


def _upgrade(parameters: list[dict[str, Any]], example: dict[str, Any] | None) -> dict[str, Any]:
    """A WebSocket, which OpenAPI has no word for; the page opens what carries `x-websocket`."""
    sent = {"x-websocket": example or {"inputs": []}}
    operation = _operation("A WebSocket: many requests and their answers", parameters, {}, **sent)
    opened = {"description": "The connection is a WebSocket"}
    operation["responses"] = {"101": opened, "default": operation["responses"]["default"]}
    return operation


_VALUES: dict[str, Any] = {"BYTES": "text", "BOOL": True}
_CODED = {"base64": "dGV4dA==", "datetime": "2000-01-01T00:00:00", "json": "{}"}
"""Texts that codecs can read, by content type."""


def _example(model: MetadataModelResponse) -> dict[str, Any]:
    inputs = []
    for tensor in model.inputs or []:
        shape = [1 if size == -1 else size for size in tensor.shape]
        count = 1
        for size in shape:
            count *= size
        content_type = tensor.parameters.content_type if tensor.parameters is not None else None
        value = _CODED.get(content_type or "") or _VALUES.get(tensor.datatype, 0)
        inputs.append(
            {
                "name": tensor.name,
                "shape": shape,
                "datatype": tensor.datatype,
                "data": [value] * min(count, 64),
            }
        )
    return {"inputs": inputs}


def _server_paths() -> dict[str, Any]:
    plain = {"application/json": {"schema": {"type": "object"}}}
    name = [_path_parameter("model_name")]
    return {
        "/v2": {"get": _operation("Metadata of the server", [], _reference("MetadataServerResponse"))},
        "/v2/health/live": {"get": _operation("Whether the server is alive", [], plain)},
        "/v2/health/ready": {"get": _operation("Whether every model is ready", [], plain)},
        "/v2/models": {"get": _operation("Names of the models", [], plain)},
        "/v2/repository/index": {"post": _operation("Models on disk and in memory", [], plain)},
        "/v2/repository/models/{model_name}/load": {
            "post": _operation("Load or reload a model", name, plain)
        },
        "/v2/repository/models/{model_name}/unload": {"post": _operation("Unload a model", name, plain)},
    }


_PAGE = Template((files(__package__) / "page.html").read_text("utf-8"))


def page(document: str, title: str) -> Response:
    """A page that lists the routes of a document and calls them; it needs nothing from another host."""
    return Response(_PAGE.substitute(document=document, title=escape(title)), media_type="text/html")
