from collections.abc import Callable
from functools import partial

import httpx
import pytest

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Let a function answer what the sources ask."""

    def answered(by: Answer) -> None:
        monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(by)))

    return answered


def streamed(content: bytes, status: int = 200, **headers: str) -> httpx.Response:
    """A response that is not read yet, as one from the network."""
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))
