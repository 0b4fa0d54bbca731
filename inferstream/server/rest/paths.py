"""The paths that FastAPI serves. They are claimed before it is imported, which most servers never do."""

from ...dataplane.access import Action

ACCESS = "/v2/access"
PROTOS = "/proto"
PROTO = "/proto/{name}"
SOCKET = "/v2/models/{name}/stream"
INDEX = "/v2/repository/index"
LOAD = "/v2/repository/models/{name}/load"
UNLOAD = "/v2/repository/models/{name}/unload"

METHODS = dict.fromkeys((ACCESS, PROTOS, PROTO, SOCKET), "GET") | dict.fromkeys((INDEX, LOAD, UNLOAD), "POST")

ACTIONS = {
    ACCESS: Action.ACCESS_LOG,
    PROTOS: Action.REFLECTION,
    PROTO: Action.REFLECTION,
    SOCKET: Action.STREAM,
    SOCKET.replace("/stream", "/versions/{version}/stream"): Action.STREAM,
    INDEX: Action.REPOSITORY_READ,
    LOAD: Action.REPOSITORY_WRITE,
    UNLOAD: Action.REPOSITORY_WRITE,
}
"""The operation that each path stands for."""


def template(path: str) -> str:
    """A path in FastAPI's form. A name may hold slashes."""
    return path.replace("{name}", "{name:path}")
