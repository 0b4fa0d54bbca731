"""A browser and clients that others wrote, on one port with TLS, all at once."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import openai
import pytest
import tritonclient.grpc
import tritonclient.http

from inferstream.protos.dataplane_pb2 import ModelInferResponse
from tests.clients.test_grpc_clients import COMMANDS, SERVICE, asking
from tests.e2e.test_tls import Encrypted
from tests.serving import eventually, fp32, text
from tests.texts import write_text_model

MANY = 100
"""Streams that one connection of a browser may have."""

OPEN = """
  ([count, body]) => {
    window.leaving = new AbortController();
    window.events = new Array(count).fill(0);
    const read = async (index) => {
      const options = { method: "POST", body, signal: leaving.signal };
      const response = await fetch("/v2/models/streaming/generate_stream", options);
      for await (const piece of response.body.pipeThrough(new TextDecoderStream()))
        events[index] += piece.split("data: ").length - 1;
    };
    window.ends = Promise.allSettled(events.map((_, index) => read(index)));
    window.messages = 0;
    window.socket = new WebSocket(`wss://${location.host}/v2/models/streaming/stream`);
    socket.onopen = () => socket.send(body);
    socket.onmessage = () => (messages += 1);
  }
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    root = tmp_path_factory.mktemp("one-port")
    write_text_model(root / "models", "words")
    serving = Encrypted(root, 0, mutual=False, flags=("--one-port",))
    yield serving
    assert serving.running.stop() == 0, serving.running.text()


def curl(served: Encrypted, version: str) -> None:
    command = ["curl", "-sS", "--cacert", str(served.authority.pem), version]
    url = f"{served.url}/v2/models/echo/infer"
    ran = subprocess.run(
        [*command, url, "-d", json.dumps(fp32([1.5]))], capture_output=True, check=True, timeout=60
    )
    assert json.loads(ran.stdout)["outputs"][0]["data"] == [1.5]


def triton(served: Encrypted, library: Any, **trust: Any) -> None:
    address = f"localhost:{served.running.http_port}"
    with closing(library.InferenceServerClient(address, ssl=True, **trust)) as client:
        tensor = library.InferInput("x", [1], "FP32")
        tensor.set_data_from_numpy(np.array([1.5], np.float32))
        assert client.infer("echo", [tensor]).as_numpy("x").tolist() == [1.5]


def completion(served: Encrypted) -> None:
    http = openai.DefaultHttpxClient(verify=served.trust())
    url = f"{served.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", http_client=http, max_retries=0) as client:
        chunks = client.completions.create(model="words", prompt="one two", stream=True)
        assert "".join(chunk.choices[0].text for chunk in chunks).split() == ["one", "two"]


def grpc_js(served: Encrypted) -> None:
    asked = {
        "address": f"localhost:{served.running.http_port}",
        "authority": str(served.authority.pem),
        "path": f"{SERVICE}/ModelInfer",
        "messages": [base64.b64encode(asking("echo").SerializeToString()).decode()],
        "metadata": {},
        "seconds": 60,
    }
    ran = subprocess.run(
        [*COMMANDS["grpc-js"], json.dumps(asked)], capture_output=True, check=True, timeout=60
    )
    [response] = json.loads(ran.stdout)["responses"]
    outputs = ModelInferResponse.FromString(base64.b64decode(response)).outputs
    assert [*outputs[0].contents.fp32_contents] == [1.5, 1.5]


CALLS: dict[str, Callable[[Encrypted], None]] = {
    "curl, HTTP/1.1": lambda served: curl(served, "--http1.1"),
    "curl, HTTP/2": lambda served: curl(served, "--http2"),
    "tritonclient.http": lambda served: triton(
        served, tritonclient.http, ssl_options={"ca_certs": str(served.authority.pem)}
    ),
    "tritonclient.grpc": lambda served: triton(
        served, tritonclient.grpc, root_certificates=str(served.authority.pem)
    ),
    "openai": completion,
}
if "GRPC_CLIENTS" in os.environ:
    CALLS["grpc-js"] = grpc_js


def test_browser_has_100_streams_and_websocket_with_other_clients(
    served: Encrypted, visit: Callable[..., Any]
) -> None:
    page = visit(f"{served.url}/v2/health/live", ignore_https_errors=True)
    responses: list[dict[str, Any]] = []
    network = page.context.new_cdp_session(page)
    network.on("Network.responseReceived", lambda event: responses.append(event["response"]))
    network.send("Network.enable")
    page.evaluate(OPEN, [MANY, json.dumps(text(parameters={"items": 10**6, "delay": 0.2}))])
    begun = "(least) => messages > least && events.every((count) => count > least)"
    eventually(lambda: page.evaluate(begun, 0), 60)
    with ThreadPoolExecutor(len(CALLS)) as threads:
        calls = {name: threads.submit(call, served) for name, call in CALLS.items()}
        for call in calls.values():
            call.result()
    seen = page.evaluate("Math.max(messages, ...events)")
    eventually(lambda: page.evaluate(begun, seen), 60)  # all of them go on
    reasons = page.evaluate(
        "leaving.abort(), socket.close(), ends.then((all) => all.map((end) => `${end.reason}`))"
    )
    assert all("AbortError" in reason for reason in reasons), reasons
    streams = [each for each in responses if each["url"].endswith("/generate_stream")]
    assert len(streams) == MANY
    assert {each["protocol"] for each in streams} == {"h2"}
    assert len({each["connectionId"] for each in streams}) == 1
    notes = served.running.log
    eventually(lambda: notes.read_text().count("finally") == notes.read_text().count("start"), 60)
