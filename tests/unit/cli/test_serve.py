"""`serve` in a program that runs an event loop, and in its background."""

import threading

import pytest
from tritonclient.grpc import InferenceServerClient

from inferstream import App, AsyncClient, Client, MLModel, serve
from inferstream.errors import InvalidSettings, ModelLoadFailed
from tests.serving import eventually

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


class Broken(MLModel):
    async def load(self) -> bool:
        raise RuntimeError("no weights")

    async def predict(self, payload):
        return None


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "inferstream-server"}


async def test_running_event_loop_is_reported() -> None:
    with pytest.raises(InvalidSettings, match=r"serve\(\) blocks, and an event loop runs in this thread"):
        serve(app)


async def test_background_server_serves_code_of_a_running_loop() -> None:
    before = threads()
    with serve(app, background=True) as url:
        with Client(url) as client:
            assert client.predict("add", {"a": 2}) == 3
        async with AsyncClient(url) as client:
            assert await client.predict("add", {"a": 2, "b": 5}) == 7
    eventually(lambda: threads() == before)


def test_server_runs_on_free_ports_until_stopped() -> None:
    first, second = serve(app, background=True), serve(app, background=True)
    try:
        assert first.url != second.url
        assert InferenceServerClient(second.grpc_address).is_server_live()
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(InvalidSettings, match=f"REST port {port} on 127.0.0.1 is already in use"):
            serve(app, background=True, http_port=port)
        first.stop()
        with serve(app, background=True, http_port=port) as url, Client(url) as client:
            assert client.predict("add", {"a": 1}) == 2
    finally:
        first.stop()  # once more, which does nothing
        second.stop()


def test_failed_model_raises_in_strict_mode() -> None:
    before = threads()
    with pytest.raises(ModelLoadFailed, match="no weights"):
        serve(Broken, background=True, strict=True)
    eventually(lambda: threads() == before)
