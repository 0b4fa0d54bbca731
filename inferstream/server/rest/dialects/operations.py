"""The routes of texts in the OpenAPI document: those of OpenAI, of TGI, and the plain `/generate`."""

from collections.abc import Mapping
from typing import Any

from ..openai.dialect import PREFIXES, OpenAI
from ..tgi.dialect import GENERATE, GENERATE_STREAM, ROOT
from ..tgi.prompt import MAX_TOKENS, TEMPERATURE

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean", "default": False}
STOP: Schema = {"type": "array", "items": STRING}
COUNT: Schema = {"type": "integer", "minimum": 1}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}

PARAMETERS: Mapping[str, Schema] = {
    "max_new_tokens": COUNT,
    "temperature": POSITIVE,
    "top_k": COUNT,
    "top_p": POSITIVE,
    "typical_p": POSITIVE,
    "repetition_penalty": POSITIVE,
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "do_sample": FLAG,
    "seed": {"type": "integer", "minimum": 0},
    "stop": STOP,
    "return_full_text": FLAG,
    "details": FLAG,
    "top_n_tokens": {"type": "integer", "minimum": 0},
    "best_of": COUNT,
    "grammar": {"type": "object"},
}

OPENAI: Mapping[str, tuple[str, Schema, Any]] = {
    "/chat/completions": (
        "messages",
        {"type": "array", "items": {"type": "object"}},
        [{"role": "user", "content": "text"}],
    ),
    "/completions": ("prompt", STRING, "text"),
    "/responses": ("input", STRING, "text"),
    "/embeddings": ("input", STRING, "text"),
}
"""The field that a path needs beside the model, and an example of it. Other paths are described by a model alone."""


def text_paths() -> dict[str, Any]:
    """Every path of these dialects, with what it is sent."""
    prompt = _object(
        ("prompt",),
        prompt=STRING,
        max_tokens={**COUNT, "default": MAX_TOKENS},
        temperature={"type": "number", "minimum": 0, "maximum": 2, "default": TEMPERATURE},
        stream=FLAG,
        stop=STOP,
        model=STRING,
    )
    tgi = {"inputs": STRING, "parameters": _object((), **PARAMETERS), "model": STRING}
    inputs = _object(("inputs",), **tgi)
    either = {"oneOf": [prompt, inputs]}
    return {
        **_openai_paths(),
        ROOT: _post(
            "A text, or a stream of tokens", _object(("inputs",), **tgi, stream=FLAG), {"inputs": "text"}
        ),
        GENERATE: _post("A text, or a stream of tokens", either, {"prompt": "text", "stream": True}),
        GENERATE_STREAM: _post("A stream of tokens", inputs, {"inputs": "text"}),
        "/info": _get("The default model"),
        "/health": _get("Whether every model is ready"),
    }


def _openai_paths() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for path in OpenAI.inferences:
        prefix = next(prefix for prefix in PREFIXES if path.startswith(prefix))
        action = path.removeprefix(prefix)
        example, fields = {"model": "model"}, {"model": STRING}
        if action in OPENAI:
            name, fields[name], example[name] = OPENAI[action]
        paths[path] = _post(f"OpenAI's {action.strip('/')}", _object(tuple(fields), **fields), example)
    for prefix in PREFIXES:
        paths[f"{prefix}/models"] = _get("The models, as OpenAI lists them")
        one = _get("One model, as OpenAI describes it")
        one["get"]["parameters"] = [{"name": "model_name", "in": "path", "required": True, "schema": STRING}]
        paths[f"{prefix}/models/{{model_name}}"] = one
    return paths


def _object(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {"type": "object", "required": [*required], "properties": properties}


def _get(summary: str) -> dict[str, Any]:
    answer = {"description": "Success", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"get": {"summary": summary, "responses": {"200": answer}}}


def _post(summary: str, schema: Schema, example: dict[str, Any]) -> dict[str, Any]:
    document = {"application/json": {"schema": {"type": "object"}}}
    content = {**document, "text/event-stream": {"schema": STRING}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema, "example": example}},
            },
            "responses": {
                "200": {"description": "Success", "content": content},
                "default": {"description": "Failure", "content": document},
            },
        }
    }
