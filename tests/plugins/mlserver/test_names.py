"""Names of machinery that inferstream does not have."""

import pytest

from inferstream.errors import Unsupported
from inferstream.ext.hosting import install_aliases

install_aliases()


def test_server_internals_are_named_with_replacement() -> None:
    from mlserver.rest import RESTServer

    assert not isinstance(object(), RESTServer)
    with pytest.raises(Unsupported, match=r"mlserver\.rest\.server\.RESTServer .* mlserver\.MLServer"):
        RESTServer(None, None, None)


def test_server_internals_without_module_are_named_with_replacement() -> None:
    from mlserver.grpc.interceptors import LoggingInterceptor
    from mlserver.rest.endpoints import Endpoints
    from mlserver.rest.logging import logger, loggerName

    assert not isinstance(object(), LoggingInterceptor)
    with pytest.raises(
        Unsupported, match=r"mlserver\.rest\.endpoints\.Endpoints .* mlserver\.MLServer serves"
    ):
        Endpoints(None)
    with pytest.raises(
        AttributeError, match=r"mlserver\.rest\.endpoints\.Endpoints .* mlserver\.MLServer serves"
    ):
        Endpoints.infer  # noqa: B018
    assert (logger.name, loggerName) == ("mlserver.rest", "mlserver.rest")
