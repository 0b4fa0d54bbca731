"""Options of the HTTP ports, by uvicorn's names."""

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.options import KEEP_ALIVE, parse_http_options


def test_port_without_options_has_defaults() -> None:
    options = parse_http_options(None, "here")
    assert (options.backlog, options.timeout_keep_alive, options.common) == (2048, KEEP_ALIVE, [])


def test_default_headers_may_name_the_server() -> None:
    options = parse_http_options({"headers": [["X-A", "b"]], "server_header": True}, "here")
    assert options.common == [(b"server", b"inferstream"), (b"x-a", b"b")]
    own = parse_http_options({"headers": [("Server", "mine")], "server_header": True}, "here")
    assert own.common == [(b"server", b"mine")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backlogs": 1}, 'here: "backlogs" is not an option of an HTTP port'),
        ({"backlog": True}, 'here: "backlog" must be a positive whole number, got True'),
        ({"headers": [["a"]]}, 'here: "headers" must be a list of pairs of texts'),
        ({"date_header": 1}, 'here: "date_header" must be true or false, got 1'),
    ],
)
def test_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        parse_http_options(options, "here")


def test_option_without_effect_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parse_http_options({"workers": 2, "ssl_certfile": "a.pem"}, "here")
    assert caplog.messages == ['here: option "workers" has no effect']
