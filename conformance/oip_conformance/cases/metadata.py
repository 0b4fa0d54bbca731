"""Metadata over REST."""

from typing import Any

from ..case import case, each
from ..outcome import expect, require, short
from ..server import UNKNOWN, Server, model_path, require_error
from ..tensors import DATATYPES


@each(["name", "version"])
def server_has(server: Server, key: str) -> None:
    value = server.http.get("/v2").ok().get(key)
    require(isinstance(value, str) and bool(value), f"expected the string `{key}`, got {short(value)}")


@case
def server_lists_extensions(server: Server) -> None:
    value = server.http.get("/v2").ok().get("extensions")
    strings = isinstance(value, list) and all(isinstance(item, str) for item in value)
    require(strings, f"expected a list of strings `extensions`, got {short(value)}")


@case
def model_has_its_name(server: Server) -> None:
    expect(_metadata(server).get("name"), server.any.name, "`name`")


@case
def model_has_a_platform(server: Server) -> None:
    value = _metadata(server).get("platform")
    require(isinstance(value, str), f"expected the string `platform`, got {short(value)}")


@case
def model_versions_are_strings(server: Server) -> None:
    value = _metadata(server).get("versions", [])
    strings = isinstance(value, list) and all(isinstance(item, str) for item in value)
    require(strings, f"expected a list of strings `versions`, got {short(value)}")


@each(["inputs", "outputs"])
def model_describes(server: Server, key: str) -> None:
    tensors = server.http.get(server.model("typed").path).ok().get(key)
    if not isinstance(tensors, list):
        require(False, f"expected a list `{key}`, got {short(tensors)}")
        return
    expect(len(tensors), 2, f"number of `{key}`")
    for tensor in tensors:
        require(
            isinstance(tensor, dict) and isinstance(tensor.get("name"), str), f"no `name`: {short(tensor)}"
        )
        require(tensor.get("datatype") in DATATYPES, f"unknown `datatype`: {short(tensor)}")
        require(_is_shape(tensor.get("shape")), f"no `shape` of integers from -1: {short(tensor)}")


@case
def variable_dimensions_are_minus_one(server: Server) -> None:
    tensors = server.http.get(server.model("typed").path).ok().get("inputs") or []
    expect([tensor.get("shape") for tensor in tensors], [[-1], [-1]], "shapes of the inputs")


@case
def model_takes_a_version(server: Server) -> None:
    document = server.http.get(f"{server.any.path}/versions/{server.any.version}").ok()
    expect(document.get("name"), server.any.name, "`name`")


@case
def unknown_model_is_an_error(server: Server) -> None:
    require_error(server.http.get(model_path(UNKNOWN)))


@case
def unknown_version_is_an_error(server: Server) -> None:
    require_error(server.http.get(f"{server.any.path}/versions/999999"))


def _metadata(server: Server) -> dict[str, Any]:
    return server.http.get(server.any.path).ok()


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= -1 for size in value)
