"""Names of machinery that inferstream does not have."""

import pytest

from inferstream import compat
from inferstream.errors import Unsupported

compat.install()


def test_machinery_can_be_named_and_says_what_to_use_instead() -> None:
    from mlserver.rest import RESTServer

    assert not isinstance(object(), RESTServer)
    with pytest.raises(Unsupported, match=r"mlserver\.rest\.server\.RESTServer .* mlserver\.MLServer"):
        RESTServer(None, None, None)


def test_a_part_of_the_machinery_without_a_file_says_so_too() -> None:
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
