"""Health over REST."""

from ..case import case
from ..outcome import expect, require
from ..server import UNKNOWN, Server, model_path


@case
def live_answers_200(server: Server) -> None:
    expect(server.http.get("/v2/health/live").status, 200, "status of GET /v2/health/live")


@case
def live_says_so(server: Server) -> None:
    expect(server.http.get("/v2/health/live").ok().get("live"), True, "`live`")


@case
def ready_answers_200(server: Server) -> None:
    expect(server.http.get("/v2/health/ready").status, 200, "status of GET /v2/health/ready")


@case
def ready_says_so(server: Server) -> None:
    """The protocol calls the key `live`, but servers return `ready`. Both are accepted."""
    document = server.http.get("/v2/health/ready").ok()
    require(
        True in (document.get("ready"), document.get("live")),
        f"neither `ready` nor `live` is true: {document}",
    )


@case
def model_ready_answers_200(server: Server) -> None:
    expect(server.http.get(f"{server.any.path}/ready").status, 200, "status")


@case
def model_ready_names_the_model(server: Server) -> None:
    document = server.http.get(f"{server.any.path}/ready").ok()
    expect(document.get("name"), server.any.name, "`name`")
    expect(document.get("ready"), True, "`ready`")


@case
def model_ready_takes_a_version(server: Server) -> None:
    path = f"{server.any.path}/versions/{server.any.version}/ready"
    expect(server.http.get(path).status, 200, f"status of GET {path}")


@case
def unknown_model_is_not_ready(server: Server) -> None:
    answer = server.http.get(f"{model_path(UNKNOWN)}/ready")
    require(answer.status >= 400, f"a model that there is not is ready: {answer.status}")
