"""OpenAPI documents of the server and of single models."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from inferstream import Settings
from inferstream.ext.calls import Described
from inferstream.ext.http import EVENT_STREAM, OBJECT, OBJECTS, HttpDialect
from inferstream.ext.runtimes import TextFacts
from inferstream.types import (
    InferenceErrorResponse,
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataServerResponse,
)

from .docstring_examples import Example, docstring_examples
from .examples import example_arguments, example_request
from .flat_schema import flat_schema

_SCHEMAS: tuple[type[Any], ...] = (
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
    described: Described | None = None,
    dialects: Sequence[HttpDialect] = (),
) -> dict[str, Any]:
    """Generate an OpenAPI 3.1 document for all routes, or for the routes of one model with an example.

    `prefix` is the base URL for clients. A model's docstring is the description. `x-model` and `x-server`
    contain additional information for the page.
    """
    title = settings.server_name
    base, parameters = "/v2/models/{model_name}", [_path_parameter("model_name")]
    if model is not None:
        title = f"Data Plane for Model {model.name}" + (f" ({version})" if version else "")
        base, parameters = f"/v2/models/{model.name}", []
        if version:
            base += f"/versions/{version}"
    exact, examples = False, []
    if described is not None:
        exact = described.signature.function
        inputs = (model and model.inputs) or ()
        examples = docstring_examples(described, inputs)
    body, flat, components = _bodies(model, exact, examples)
    paths = _model_paths(base, parameters, body, flat)
    if model is None:
        versioned = [*parameters, _path_parameter("model_version")]
        paths |= _model_paths(f"{base}/versions/{{model_version}}", versioned, body, flat)
        paths |= _server_paths()
        for dialect in dialects:
            paths |= dialect.described()
    about = {} if described is None else _about(described, [example.arguments for example in examples])
    if port := settings.http_port if settings.one_port else settings.grpc_port:
        about["x-server"] = {"grpc_port": port}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": settings.server_version} | about,
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {"schemas": _schemas() | components},
    }


def _bodies(
    model: MetadataModelResponse | None, exact: bool, examples: Sequence[Example]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the bodies of `infer` and `generate`, and the components that their schemas refer to."""
    body = _reference("InferenceRequest")["application/json"]
    v2 = body["schema"]
    if model is None or not model.inputs:
        return body, {"schema": v2}, {}
    schema, components = flat_schema(model.inputs, exact)
    if examples:
        arguments, tensors = examples[0]
        request = {"inputs": [tensor.model_dump(mode="json") for tensor in tensors]}
    else:
        arguments, request = example_arguments(model.inputs), example_request(model.inputs)
    flat = {"schema": {"anyOf": [schema, v2]}, "example": arguments}
    return body | {"example": request}, flat, components


@cache
def _schemas() -> dict[str, Any]:
    _, schemas = models_json_schema(
        [(schema, "validation") for schema in _SCHEMAS], ref_template="#/components/schemas/{model}"
    )
    definitions: dict[str, Any] = schemas["$defs"]
    return definitions


def _about(model: Described, examples: list[dict[str, Any]]) -> dict[str, Any]:
    signature, capabilities, calls = model.signature, model.capabilities, model.calls
    text = model.facet(TextFacts)
    facts: dict[str, Any] = {
        "predict": capabilities.predict or capabilities.gathers,
        "streams": capabilities.streams and not capabilities.gathers,
        "steps": capabilities.steps,
        "function": signature.function,
        "text": text is not None and text.generates,
        "embeddings": text is not None and text.embeds,
    }
    facts |= ({"calls": calls} if calls else {}) | ({"examples": examples} if examples else {})
    return ({"description": signature.doc} if signature.doc else {}) | {"x-model": facts}


_RESUMING: list[dict[str, Any]] = [
    {
        "name": "Prefer",
        "in": "header",
        "description": "`resumable` lets the stream outlive its connection.",
        "schema": {"type": "string"},
    },
    {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The last event that arrived: the response is the rest of its stream.",
        "schema": {"type": "string"},
    },
]
"""The request headers for resumable streams."""


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _reference(name: str) -> dict[str, Any]:
    return _in_json({"$ref": f"#/components/schemas/{name}"})


def _operation(
    summary: str, parameters: list[dict[str, Any]], content: dict[str, Any], **more: Any
) -> dict[str, Any]:
    responses = {"200": {"description": "Success", "content": content}}
    responses["default"] = {"description": "Failure", "content": _reference("InferenceErrorResponse")}
    return {"summary": summary, "parameters": parameters, "responses": responses, **more}


def _model_paths(
    base: str, parameters: list[dict[str, Any]], body: dict[str, Any], flat: dict[str, Any]
) -> dict[str, Any]:
    sent = {"required": True, "content": {"application/json": body}}
    arguments_sent = {"required": True, "content": {"application/json": flat}}
    event = {EVENT_STREAM: {"schema": {"description": "InferenceResponse events"}}}
    whole = _reference("InferenceResponse")
    plain = _in_json(OBJECT)
    return {
        base: {"get": _operation("Metadata of the model", parameters, _reference("MetadataModelResponse"))},
        f"{base}/ready": {"get": _operation("Whether the model is ready", parameters, plain)},
        f"{base}/stats": {"get": _operation("Counts and durations of the model", parameters, plain)},
        f"{base}/infer": {"post": _operation("One response", parameters, whole, requestBody=sent)},
        f"{base}/generate": {
            "post": _operation("One response, of arguments", parameters, plain, requestBody=arguments_sent)
        },
        f"{base}/infer_stream": {
            "post": _operation("A stream of responses", [*parameters, *_RESUMING], event, requestBody=sent),
            "delete": _discard_operation(parameters),
        },
        f"{base}/generate_stream": {
            "post": _operation(
                "A stream of responses, of arguments",
                [*parameters, *_RESUMING],
                event,
                requestBody=arguments_sent,
            ),
            "delete": _discard_operation(parameters),
        },
        f"{base}/stream": {"get": _upgrade(parameters, body.get("example"))},
    }


def _discard_operation(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the operation that discards a resumable stream. It has no body."""
    last = _RESUMING[1] | {"required": True}
    return _operation("End a stream that is held for its client", [*parameters, last], {})


def _upgrade(parameters: list[dict[str, Any]], example: dict[str, Any] | None) -> dict[str, Any]:
    """Describe a WebSocket route, which OpenAPI does not support.

    The page opens a WebSocket for operations with `x-websocket`.
    """
    sent = {"x-websocket": example or {"inputs": []}}
    operation = _operation("A WebSocket: many requests and their responses", parameters, {}, **sent)
    opened = {"description": "The connection is a WebSocket"}
    operation["responses"] = {"101": opened, "default": operation["responses"]["default"]}
    return operation


def _server_paths() -> dict[str, Any]:
    plain = _in_json(OBJECT)
    listed = _in_json(OBJECTS)
    name = [_path_parameter("model_name")]
    return {
        "/v2": {"get": _operation("Metadata of the server", [], _reference("MetadataServerResponse"))},
        "/v2/health/live": {"get": _operation("Whether the server is alive", [], plain)},
        "/v2/health/ready": {"get": _operation("Whether every model is ready", [], plain)},
        "/v2/models": {"get": _operation("Names of the models", [], plain)},
        "/v2/requests/{id}": {
            "delete": _operation("Cancel the requests with this id", [_path_parameter("id")], plain)
        },
        "/v2/repository/index": {"post": _operation("Models on disk and in memory", [], listed)},
        "/v2/repository/models/{model_name}/load": {
            "post": _operation("Load or reload a model", name, plain)
        },
        "/v2/repository/models/{model_name}/unload": {"post": _operation("Unload a model", name, plain)},
    }
