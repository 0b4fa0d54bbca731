"""One port has one certificate."""

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.doors import check_certificate
from inferstream.settings import Settings


def test_grpc_only_certificate_is_refused_on_a_shared_port() -> None:
    named = Settings.model_validate({"_custom_grpc_server_settings": {"ssl_certfile": "a.pem"}})
    check_certificate(named, encrypted=True)
    check_certificate(Settings(), encrypted=False)
    with pytest.raises(
        InvalidSettings, match="one port has one certificate, that of _custom_rest_server_settings"
    ):
        check_certificate(named, encrypted=False)
