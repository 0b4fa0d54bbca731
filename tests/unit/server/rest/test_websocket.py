"""The upgrade to a WebSocket."""

import pytest

from inferstream.server.rest.websocket import ROUTE, chosen


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        ("/v2/models/m/stream", ("m", None)),
        ("/v2/models/a/b/stream", ("a/b", None)),
        ("/v2/models/m/versions/2/stream", ("m", "2")),
    ],
)
def test_a_path_names_a_model_and_perhaps_a_version(path: str, groups: tuple[str, str | None]) -> None:
    match = ROUTE.fullmatch(path)
    assert match is not None
    assert match.groups() == groups
    assert ROUTE.fullmatch("/v2/models/stream") is None


def test_the_subprotocol_with_a_key_is_never_the_answer() -> None:
    assert chosen(["inferstream.key.secret", "inferstream"]) == "inferstream"
    assert chosen(["inferstream.key.secret"]) is None
