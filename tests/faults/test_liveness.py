"""What is answered while code of a model that awaits blocks: its `load`, its `unload` or an inference."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.faults.test_loading import PATIENCE, closed, free_port, others_go_on, status
from tests.serving import Running, eventually, fp32, write_model

CODE = """
import asyncio
import os
import time
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse

LOG = os.environ["TEST_LOG"]
GATE = Path(LOG + ".closed")


def note(what):
    with open(LOG, "a") as file:
        file.write(what + "\\n")


def block(what):
    note(what)
    until = time.monotonic() + 60
    while GATE.exists() and time.monotonic() < until:
        time.sleep(0.01)


class Awaiting(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0)
        return InferenceResponse(model_name=self.name, outputs=[])


class Loading(Awaiting):
    async def load(self):
        await asyncio.sleep(0)
        block("loads")
        return True

    async def unload(self):
        block("unloads")
        return True


class LoadingOnce(Awaiting):
    async def load(self):
        note("loads")
        if Path(LOG).read_text().count("loads") == int(os.environ["TEST_BLOCKS"]):
            block("blocks")
        return True


class Constructing(Awaiting):
    def __init__(self, settings):
        super().__init__(settings)
        block("loads")


class Waiting(Awaiting):
    async def load(self):
        note("loads")
        while GATE.exists():
            await asyncio.sleep(0.01)
        return True


class Predicting(Awaiting):
    async def predict(self, payload):
        block("predicts")
        return await super().predict(payload)
"""

LIVE = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Raw:
    """A client that sends what it is told."""

    def __init__(self, server: Running) -> None:
        port = int(server.url.rpartition(":")[2])
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[list[bytes], bytes]:
        """The head of a response, line by line and without its date, and the body."""
        head = [line.rstrip() for line in iter(self._file.readline, b"\r\n") if line]
        length = next(int(line.split()[1]) for line in head if line.startswith(b"content-length"))
        return [line for line in head if not line.startswith(b"date")], self._file.read(length)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def write_models(tmp_path: Path, kind: str) -> Path:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "slow", f"awaiting.{kind}", CODE)
    return folder


@contextmanager
def starting(
    start: Callable[..., Running], folder: Path, *flags: str, **environment: str
) -> Iterator[Running]:
    """A server that loads its models for as long as this lasts, and comes up afterwards."""
    http, rpc = free_port(), free_port()
    with closed(folder):
        ports = ("--http-port", str(http), "--grpc-port", str(rpc))
        server = start(folder, *ports, *flags, wait=False, INFERSTREAM_PARALLEL_WORKERS="0", **environment)
        server.url, server.grpc = f"http://127.0.0.1:{http}", f"127.0.0.1:{rpc}"
        eventually(lambda: server.noted("loads"), 30)
        yield server
    eventually(server.listens, 30)


@contextmanager
def changing(start: Callable[..., Running], folder: Path, action: str) -> Iterator[Running]:
    """A server that is told by a client to load or unload a model, and does so for as long as this lasts."""
    server = start(folder, INFERSTREAM_PARALLEL_WORKERS="0")
    before = server.log.read_text().count(f"{action}s\n")
    url = f"{server.url}/v2/repository/models/slow/{action}"
    with ThreadPoolExecutor(1) as pool:
        with closed(folder):
            changed = pool.submit(httpx.post, url, timeout=60)
            eventually(lambda: server.log.read_text().count(f"{action}s\n") > before, 20)
            yield server
            assert not changed.done()
        assert changed.result().status_code == 200


@contextmanager
def busy(start: Callable[..., Running], folder: Path, when: str) -> Iterator[Running]:
    with starting(start, folder) if when == "start" else changing(start, folder, when) as server:
        yield server


@pytest.mark.parametrize("when", ["start", "load", "unload"])
def test_blocked_async_model_does_not_block_server(
    start: Callable[..., Running], tmp_path: Path, when: str
) -> None:
    folder = write_models(tmp_path, "Loading")
    infer = json.dumps(fp32([1.0])).encode()
    asked = b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(
        infer
    )
    with busy(start, folder, when) as server:
        eventually(lambda: status(server, "models/echo/ready") == 200, 10)
        others_go_on(server)
        assert httpx.get(server.url, timeout=PATIENCE).json() == {"status": "alive"}
        with Raw(server) as client, Raw(server) as halved, Raw(server) as silent:
            client.send(LIVE + LIVE)  # the connection stays open
            assert client.answer() == client.answer()
            halved.send(asked[:30])
            assert status(server, "health/live") == 200
            halved.send(asked[30:] + infer)
            silent.send(asked + infer)
            for each in (halved, silent):
                head, body = each.answer()
                assert head[0] == b"HTTP/1.1 200 OK"
                assert json.loads(body)
    server.probe()
    assert server.stop() == 0


@pytest.mark.parametrize("what", ["constructor", "import"])
def test_async_model_import_and_init_do_not_block_event_loop(
    start: Callable[..., Running], tmp_path: Path, what: str
) -> None:
    folder = write_models(tmp_path, "Constructing" if what == "constructor" else "Awaiting")
    if what == "import":
        write_model(folder, "slow", "awaiting.Awaiting", f'{CODE}\nblock("loads")\n')
    else:
        write_model(folder, "echo", "faulty_models.Echo")
    with starting(start, folder) as server:
        assert status(server, "health/live") == 200
        assert status(server, "models/slow/ready") == 503  # the event loop answers
        if what == "constructor":  # models are imported one after the other
            eventually(lambda: status(server, "models/echo/ready") == 200, 10)
            others_go_on(server)


@pytest.mark.parametrize("which", [3, 4], ids=["first", "second"])
def test_every_front_end_is_live_while_async_model_blocks_one(
    start: Callable[..., Running], tmp_path: Path, which: int
) -> None:
    folder = write_models(tmp_path, "LoadingOnce")
    environment = {"INFERSTREAM_PARALLEL_WORKERS": "0", "TEST_BLOCKS": str(which)}
    server = start(folder, "--frontends", "2", **environment)  # the model has loaded in both
    with ThreadPoolExecutor(1) as pool:
        with closed(folder):
            url = f"{server.url}/v2/repository/models/slow/load"
            changed = pool.submit(httpx.post, url, timeout=60)
            eventually(lambda: server.noted("blocks"), 20)
            for _ in range(20):
                assert status(server, "health/live") == 200
            assert not changed.done()
        assert changed.result().status_code == 200
    for _ in range(20):
        server.probe()


def test_server_is_live_while_inference_blocks_and_model_loads(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    folder = write_models(tmp_path, "Waiting")
    write_model(folder, "blocking", "awaiting.Predicting", CODE)
    with ThreadPoolExecutor(1) as pool:
        with starting(start, folder) as server:
            eventually(lambda: status(server, "models/blocking/ready") == 200, 10)
            url = f"{server.url}/v2/models/blocking/infer"
            inferred = pool.submit(httpx.post, url, json=fp32([1.0]), timeout=60)
            eventually(lambda: server.noted("predicts"))
            assert status(server, "health/live") == 200
            assert not inferred.done()
        assert inferred.result().status_code == 200


def test_server_is_live_after_load_timeout(start: Callable[..., Running], tmp_path: Path) -> None:
    folder = write_models(tmp_path, "Loading")
    with closed(folder):
        server = start(folder, INFERSTREAM_MODEL_LOAD_TIMEOUT="1", INFERSTREAM_PARALLEL_WORKERS="0")
        assert "slow" in server.text()
        assert status(server, "models/slow/ready") == 503
        others_go_on(server)


def test_tls_clients_are_served_while_async_model_blocks(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    folder = write_models(tmp_path, "Loading")
    authority = Authority(tmp_path)
    settings = {"_custom_rest_server_settings": authority.issue("server")}
    (folder / "settings.json").write_text(json.dumps(settings))
    trusted = ssl.create_default_context(cafile=authority.pem)
    with starting(start, folder) as server:
        url = server.url.replace("http://", "https://")
        live = httpx.get(f"{url}/v2/health/live", verify=trusted, timeout=PATIENCE)
        assert live.json() == {"live": True}
