"""Where a GET may run a model."""

import pytest

from inferstream.server.rest.origins import gets_run_models
from inferstream.settings import Settings

ENCRYPTED = {"ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "10.0.0.7", "_custom_rest_server_settings": {"backlog": 9}}, False),
        ({"host": "0.0.0.0", "_custom_grpc_server_settings": ENCRYPTED}, False),
        ({"host": "0.0.0.0", "_custom_rest_server_settings": ENCRYPTED}, True),
        ({"host": "0.0.0.0", "get_streams": True}, True),
        ({"get_streams": False}, False),
    ],
    ids=str,
)
def test_gets_run_models_where_browsers_name_the_page(settings: dict, expected: bool) -> None:
    assert gets_run_models(Settings(**settings)) is expected
