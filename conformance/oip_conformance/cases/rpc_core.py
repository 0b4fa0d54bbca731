"""Health and metadata over gRPC."""

from typing import Any

from ..case import case, each
from ..outcome import expect, require, short
from ..rpc import Refused
from ..server import UNKNOWN, Server
from ..tensors import DATATYPES


@case
def server_is_live(server: Server) -> None:
    expect(server.rpc.call("ServerLive").live, True, "`live`")


@case
def server_is_ready(server: Server) -> None:
    expect(server.rpc.call("ServerReady").ready, True, "`ready`")


@case
def model_is_ready(server: Server) -> None:
    expect(server.rpc.call("ModelReady", name=server.any.name).ready, True, "`ready`")


@case
def model_of_a_version_is_ready(server: Server) -> None:
    response = server.rpc.call("ModelReady", name=server.any.name, version=server.any.version)
    expect(response.ready, True, "`ready`")


@case
def unknown_model_is_not_ready(server: Server) -> None:
    try:
        ready = server.rpc.attempt("ModelReady", name=UNKNOWN).ready
    except Refused:
        return
    expect(ready, False, "`ready` of a model that there is not")


@each(["name", "version"])
def server_has(server: Server, key: str) -> None:
    require(bool(getattr(server.rpc.call("ServerMetadata"), key)), f"the server's `{key}` is empty")


@case
def extensions_are_known_to_rest(server: Server) -> None:
    """gRPC may list fewer extensions, because some exist only for REST."""
    unknown = set(server.rpc.call("ServerMetadata").extensions) - set(map(str, server.extensions()))
    require(not unknown, f"extensions of gRPC that REST does not list: {short(sorted(unknown))}")


@case
def model_has_its_name(server: Server) -> None:
    expect(server.rpc.call("ModelMetadata", name=server.any.name).name, server.any.name, "`name`")


@case
def model_has_the_platform_of_rest(server: Server) -> None:
    platform = server.http.get(server.any.path).ok().get("platform")
    expect(
        server.rpc.call("ModelMetadata", name=server.any.name).platform,
        platform,
        "`platform`, against REST's",
    )


@case
def model_lists_its_versions(server: Server) -> None:
    versions = list(server.rpc.call("ModelMetadata", name=server.any.name).versions)
    expect(versions, server.any.versions, "`versions` of gRPC, against REST's")


@each(["inputs", "outputs"])
def model_describes(server: Server, key: str) -> None:
    listed = getattr(_fetch_metadata(server), key)
    prefix = key[:-1].upper()
    named = [(tensor.name, tensor.datatype) for tensor in listed]
    expect(named, [(f"{prefix}0", "FP32"), (f"{prefix}1", "BYTES")], f"`{key}`")
    for tensor in listed:
        require(tensor.datatype in DATATYPES, f"unknown datatype: {short(str(tensor))}")


@case
def variable_dimensions_are_minus_one(server: Server) -> None:
    expect(
        [list(tensor.shape) for tensor in _fetch_metadata(server).inputs],
        [[-1], [-1]],
        "shapes of the inputs",
    )


@case
def metadata_take_a_version(server: Server) -> None:
    response = server.rpc.call("ModelMetadata", name=server.any.name, version=server.any.version)
    expect(response.name, server.any.name, "`name`")


@case
def metadata_of_an_unknown_model_are_an_error(server: Server) -> None:
    server.rpc.refusal("ModelMetadata", name=UNKNOWN)


@case
def metadata_of_an_unknown_version_are_an_error(server: Server) -> None:
    server.rpc.refusal("ModelMetadata", name=server.any.name, version="999999")


def _fetch_metadata(server: Server) -> Any:
    return server.rpc.call("ModelMetadata", name=server.model("typed").name)
