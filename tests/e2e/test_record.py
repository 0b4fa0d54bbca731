"""The recorder, and the replay of what it has written, over every dialect, with real processes."""

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import anthropic
import grpc
import httpx
import ollama
import openai
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.disks import small_disk
from tests.serving import SERVER, Running, eventually

APP = """
import asyncio
from collections.abc import AsyncIterator

from inferstream import App

app = App()


@app.model
def twice(x: list[float]) -> list[float]:
    return [2 * each for each in x]


@app.model
async def tell(prompt: str) -> AsyncIterator[str]:
    for word in f"you said {prompt} and no more".split():
        yield word + " "
        await asyncio.sleep(0)


@app.model
async def endless(prompt: str) -> AsyncIterator[str]:
    number = 0
    while True:
        yield f"{number} "
        number += 1
        await asyncio.sleep(0.01)


@app.model
def rank(query: str, documents: list[str]) -> list[float]:
    return [float(len(set(query.split()) & set(each.split()))) for each in documents]
"""

OTHER = APP.replace("2 * each", "3 * each").replace("you said", "they said")


def folder_of(root: Path, name: str, app: str = APP, **record: object) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "app.py").write_text(app)
    settings = {"default_model": "tell", **({"record": record} if record else {})}
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def lines(file: Path) -> list[dict]:
    whole = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in whole]


def ended(file: Path) -> list[dict]:
    return [line for line in lines(file) if line.get("end")]


def message(model: str, *values: str) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model)
    tensor = made.inputs.add(name="prompt", datatype="BYTES", shape=[len(values)])
    tensor.contents.bytes_contents.extend(value.encode() for value in values)
    return made


def flat(server: Running, path: str, **body: object) -> None:
    assert httpx.post(server.url + path, json=body, timeout=20).status_code == 200


def binary(server: Running) -> None:
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "FP64",
                    "shape": [2],
                    "parameters": {"binary_data_size": 16},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    sizes = {"inference-header-content-length": str(len(head))}
    body = head + b"\xff" * 7 + b"\x3f" + bytes(8)
    url = f"{server.url}/v2/models/twice/infer"
    assert httpx.post(url, content=body, headers=sizes, timeout=20).status_code == 200


def websocket(server: Running) -> None:
    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/tell/stream") as socket:
        socket.send(json.dumps({"prompt": "hi"}))
        while json.loads(socket.recv(20)).get("parameters", {}).get("final", True) is not True:
            pass


def unary(server: Running) -> None:
    made = ModelInferRequest(model_name="twice")
    made.inputs.add(name="x", datatype="FP64", shape=[1]).contents.fp64_contents.append(1.5)
    with grpc.insecure_channel(server.grpc) as channel:
        GRPCInferenceServiceStub(channel).ModelInfer(made, timeout=20)


def streamed(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        assert list(
            GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message("tell", "a")]), timeout=20)
        )


def cancelled(server: Running) -> None:
    url = f"{server.url}/v2/models/endless/generate_stream"
    with httpx.stream("POST", url, json={"prompt": "a"}, timeout=20) as response:
        assert next(response.iter_raw())


CHAT = [{"role": "user", "content": "hi there"}]


def of_openai(server: Running) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="never-recorded") as client:
        assert client.completions.create(model="tell", prompt="hi").choices[0].text
        assert list(client.completions.create(model="tell", prompt="hi", stream=True))


def of_anthropic(server: Running) -> None:
    with anthropic.Anthropic(base_url=server.url, api_key="never-recorded") as client:
        assert client.messages.create(model="tell", messages=CHAT, max_tokens=99).content
        assert list(client.messages.create(model="tell", messages=CHAT, max_tokens=99, stream=True))


def of_ollama(server: Running) -> None:
    with ollama.Client(server.url) as client:
        assert client.generate("tell", "hi")
        assert list(client.generate("tell", "hi", stream=True))


DIALECTS: dict[str, Callable[[Running], object]] = {
    "v2": lambda server: server.infer(
        "twice", {"inputs": [{"name": "x", "datatype": "FP64", "shape": [2], "data": [1, 2]}]}
    ),
    "v2 binary": binary,
    "no such model": lambda server: server.infer("nobody", {"inputs": []}),
    "wrong input": lambda server: server.infer("twice", {"inputs": [{"name": "y"}]}),
    "generate": lambda server: flat(server, "/v2/models/twice/generate", x=[1.5]),
    "generate_stream": lambda server: flat(server, "/v2/models/tell/generate_stream", prompt="b"),
    "infer_stream": lambda server: server.infer(
        "tell",
        {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["hi"]}]},
        "infer_stream",
    ),
    "websocket": websocket,
    "grpc": unary,
    "grpc stream": streamed,
    "openai": of_openai,
    "anthropic": of_anthropic,
    "ollama": of_ollama,
    "rerank": lambda server: flat(server, "/rerank", model="rank", query="a b", documents=["a", "b a"]),
    "v1": lambda server: flat(server, "/v1/models/twice:predict", instances=[{"x": [1.0, 2.0]}]),
    "cancel": cancelled,
}


def replay(file: Path, against: object, *flags: str) -> tuple[int, dict]:
    command = [*SERVER, "replay", str(file), "--against", str(against), "--diff", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of every dialect."""
    root = tmp_path_factory.mktemp("record")
    file = root / "record.jsonl"
    server = Running(folder_of(root, "models", path=str(file), bodies=True))
    try:
        for ask in DIALECTS.values():
            ask(server)
        eventually(lambda: len(ended(file)) >= len(DIALECTS) + 3, 20)
    finally:
        assert server.stop() == 0, server.text()
    return file


def test_replay_is_byte_identical_for_every_protocol(recorded: Path, tmp_path: Path) -> None:
    status, report = replay(recorded, folder_of(tmp_path, "again") / "app.py", "--speed", "max")
    assert report["schema"] == "inferstream.replay/1"
    unequal = [case for case in report["cases"] if case["detail"] != "equal bytes"]
    assert (status, unequal, report["failed"], report["skipped"]) == (0, [], 0, [])
    assert report["passed"] == len({line["id"] for line in lines(recorded)}) == len(DIALECTS) + 3


def test_record_is_private_and_has_no_credentials(recorded: Path) -> None:
    for file in (recorded, recorded.with_name("record.jsonl.bin")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert b"never-recorded" not in file.read_bytes()


def test_records_contain_outcomes_and_failures(recorded: Path) -> None:
    ends = {(line["model"], line["end"]["code"], line["end"]["status"]) for line in ended(recorded)}
    assert {("nobody", "not_found", 404), ("endless", "cancelled", 499), ("tell", "success", "OK")} <= ends
    assert any(model == "twice" and status == 400 and code != "success" for model, code, status in ends)


def test_cancel_is_replayed_as_cancel(recorded: Path, tmp_path: Path) -> None:
    alone = tmp_path / "cancel.jsonl"
    chosen = [line for line in lines(recorded) if line["model"] == "endless"]
    alone.write_text("".join(json.dumps(line) + "\n" for line in chosen))
    again = tmp_path / "again.jsonl"
    server = Running(folder_of(tmp_path, "served", path=str(again)))
    try:
        status, report = replay(alone, server.url, "--grpc", server.grpc)
        assert (status, report["cases"][0]["detail"]) == (0, "equal bytes")
        eventually(
            lambda: [line["end"] for line in ended(again)] == [{"code": "cancelled", "status": 499}], 20
        )
    finally:
        server.stop()


def test_changed_response_is_reported(recorded: Path, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    status, report = replay(
        recorded, folder_of(tmp_path, "other", OTHER) / "app.py", "--speed", "max", "--junit", str(junit)
    )
    failed = {case["detail"].partition(":")[0] for case in report["cases"] if case["status"] == "failed"}
    assert (status, failed) == (1, {"numbers", "text", "bytes differ"})
    suite = ElementTree.parse(junit).getroot()
    assert int(suite.attrib["failures"]) == report["failed"] == len(suite.findall("testcase/failure"))


def test_kill_loses_at_most_one_second_of_stream(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    server = Running(folder_of(tmp_path, "models", path=str(file), bodies=True))
    url = f"{server.url}/v2/models/endless/generate_stream"
    with (
        pytest.raises(httpx.TransportError),
        httpx.stream("POST", url, json={"prompt": "a"}, timeout=20) as answer,
    ):
        for _ in answer.iter_raw():
            events = [event for line in lines(file) for event in line["events"] if event[1] == "out"]
            if len(events) > 20:
                server.process.kill()
    server.process.wait(30)
    first = lines(file)[0]
    assert (first["request"]["target"], first["end"], first["model"]) == (
        "/v2/models/endless/generate_stream",
        None,
        "endless",
    )


def test_full_disk_stops_no_call_and_is_logged_once(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        server = Running(folder_of(tmp_path, "models", path=str(disk / "record.jsonl"), bodies=True))
        try:
            eventually(
                lambda: [
                    flat(server, "/v2/models/tell/generate_stream", prompt="a" * 50_000),
                    "writing the record failed" in server.text(),
                ][1],
                30,
            )
            for _ in range(20):
                flat(server, "/v2/models/tell/generate_stream", prompt="a" * 50_000)
            assert server.text().count("writing the record failed") == 1
        finally:
            assert server.stop() == 0, server.text()


def test_files_rotate_within_size_limit_and_older_one_replays(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    server = Running(folder_of(tmp_path, "models", path=str(file), bodies=True, max_bytes=2**17))
    older = file.with_name("record.jsonl.1")
    try:

        def rotated() -> bool:
            flat(server, "/v2/models/twice/generate", x=[1.0] * 1000)
            binary(server)
            return older.exists() and bool(ended(file))

        eventually(rotated, 30)
        kept = [*tmp_path.glob("record.jsonl*")]
        assert sum(each.stat().st_size for each in kept) <= 2**17 + 2**16
        assert replay(older, server.url, "--grpc", server.grpc, "--speed", "max")[0] == 0
    finally:
        assert server.stop() == 0, server.text()


def test_redacted_content_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    named = ["x-patient", "prompt", "text_output", "output"]
    server = Running(
        folder_of(tmp_path, "models", path=str(file), bodies=True, redact=named, models=["tell"])
    )
    try:
        body, secret = {"prompt": "canary", "other": 1}, {"x-patient": "canary"}
        for action in ("generate", "generate_stream"):
            httpx.post(f"{server.url}/v2/models/tell/{action}", json=body, headers=secret, timeout=20)
        tensors = {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["canary"]}]}
        server.infer("tell", tensors, "infer_stream")
        streamed(server)
        flat(server, "/v2/models/twice/generate", x=[1.5])  # of a model that is not recorded
        eventually(lambda: len(ended(file)) == 4, 20)
    finally:
        assert server.stop() == 0, server.text()
    assert {line["model"] for line in lines(file)} == {"tell"}
    assert b"canary" not in file.read_bytes() + file.with_name("record.jsonl.bin").read_bytes()


def test_records_without_bodies_have_only_sizes(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    server = Running(folder_of(tmp_path, "models", path=str(file)))
    try:
        flat(server, "/v2/models/tell/generate_stream", prompt="canary")
        eventually(lambda: ended(file), 20)
        status, report = replay(file, server.url, "--grpc", server.grpc)
    finally:
        assert server.stop() == 0, server.text()
    assert b"canary" not in file.read_bytes()
    assert all(type(content) is int for _, kind, content in ended(file)[0]["events"] if kind in ("in", "out"))
    assert (status, report["skipped"][0]["reason"]) == (1, "the record has no bodies, or not all")
