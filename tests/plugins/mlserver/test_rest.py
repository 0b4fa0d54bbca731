"""Responses of custom routes under MLServer's names."""

import numpy as np

from inferstream.ext.hosting import install_aliases

install_aliases()

from mlserver.types import (  # type: ignore[import-not-found]
    InferenceResponse,
)


async def test_error_becomes_response() -> None:
    from mlserver.errors import MLServerError
    from mlserver.rest.errors import handle_mlserver_error

    response = await handle_mlserver_error(None, MLServerError("no tea", 418))
    assert (response.status_code, response.body) == (418, b'{"error":"no tea"}')


def test_events_and_responses_contain_arrays() -> None:
    from mlserver.rest.responses import Response, ServerSentEvent

    assert Response({"a": np.array([1])}).body == b'{"a":[1]}'
    event = ServerSentEvent(InferenceResponse(model_name="m", outputs=[])).encode()
    assert event == b'data: {"model_name":"m","outputs":[]}\n\n'
