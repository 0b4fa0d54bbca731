"""Conversations in the ids of responses, with OpenAI's own client: over replicas, in streams, and in no record."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.serving import SERVER, Running, write_model

CODE = '''
import json

from inferstream import MLModel, StringCodec, Token


class Told(MLModel):
    """Says which messages it got, in pieces, or calls a tool."""

    async def predict_stream(self, payloads):
        async for payload in payloads:
            inputs = {each.name: StringCodec.decode_input(each)[0] for each in payload.inputs}
            messages = json.loads(inputs["messages"])
            if "tools" in inputs and messages[-1]["role"] == "user":
                function = {"name": "weather", "arguments": '{"city": "Zug"}'}
                if "apply_patch" in inputs["tools"]:
                    function = {"name": "apply_patch", "arguments": '{"input": "+ü"}'}
                yield Token(tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": function}])
                return
            text = json.dumps(messages, ensure_ascii=False)
            for start in range(0, len(text), 7):
                yield text[start : start + 7]
'''
TEXT = {"datatype": "BYTES", "shape": [1]}
OPTIONAL = {"parameters": {"optional": True}}
TOOLS = [{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}]
SECRET = "the canary of somebody 🎉"


def serve(folder: Path, key_file: Path, **settings: object) -> Running:
    inputs = [{"name": "messages", **TEXT}, {"name": "tools", **TEXT, **OPTIONAL}]
    outputs = [{"name": "text", **TEXT}]
    write_model(folder, "told", "told.Told", CODE, name="told", inputs=inputs, outputs=outputs)
    (folder / "settings.json").write_text(json.dumps({"state_key_file": str(key_file), **settings}))
    return Running(folder)


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "state.keys"
    path.write_text(f"{secrets.token_urlsafe(32)}\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def replicas(key_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    """A server that records and says all it can, and one with two front ends."""
    root = tmp_path_factory.mktemp("replicas")
    record = {"path": str(root / "record.jsonl"), "bodies": True}
    running = [
        serve(root / "first", key_file, debug=True, record=record),
        serve(root / "second", key_file, frontends=2),
    ]
    yield running
    assert [each.stop() for each in running] == [0, 0], running[0].text() + running[1].text()


def connected(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=20)


def contents(response) -> list[str]:
    """The contents of the messages that the model got."""
    return [message["content"] for message in json.loads(response.output_text)]


def test_conversation_moves_between_replicas(replicas: list[Running]) -> None:
    with connected(replicas[0]) as first, connected(replicas[1]) as second:
        said = [SECRET]
        response = first.responses.create(model="told", input=SECRET, instructions="be kind")
        for turn, client in enumerate([second] * 4 + [first, second]):
            before = response
            said += [before.output_text, f"turn {turn}"]
            response = client.responses.create(
                model="told", input=f"turn {turn}", previous_response_id=before.id
            )
            if turn == 0:
                assert contents(response)[0] == SECRET  # and no instructions
            assert contents(response) == said
            assert response.id != before.id
        assert len(response.id) < 256 * 1024


def test_streamed_conversation_continues(replicas: list[Running]) -> None:
    with connected(replicas[0]) as first, connected(replicas[1]) as second:
        said: list[str] = []
        id = None
        for turn, client in enumerate((first, second, first)):
            created, *_, last = client.responses.create(
                model="told", input=f"turn {turn}", previous_response_id=id, stream=True, store=True
            )
            assert (created.type, last.type) == ("response.created", "response.completed")
            said.append(f"turn {turn}")
            assert contents(last.response) == said
            said.append(last.response.output_text)
            id = last.response.id
        with pytest.raises(openai.BadRequestError, match="that of a stream needs store: true"):
            first.responses.create(model="told", input="d", previous_response_id=created.response.id)


def test_client_accumulated_stream_keeps_id(replicas: list[Running]) -> None:
    with connected(replicas[0]) as client:
        before = client.responses.create(model="told", input="a")
        with client.responses.stream(model="told", input="b", previous_response_id=before.id) as stream:
            *_, last = stream
        assert contents(last.response) == ["a", before.output_text, "b"]
        assert last.response.model_dump()["store"] is False


async def test_async_client_continues_conversation(replicas: list[Running]) -> None:
    options = {"api_key": "none", "max_retries": 0, "timeout": 20}
    async with openai.AsyncOpenAI(base_url=f"{replicas[1].url}/v1", **options) as client:
        before = await client.responses.create(model="told", input="a")
        stream = await client.responses.create(
            model="told", input="b", previous_response_id=before.id, stream=True, store=True
        )
        events = [event async for event in stream]
        assert contents(events[-1].response) == ["a", before.output_text, "b"]
        after = await client.responses.create(
            model="told", input="c", previous_response_id=events[-1].response.id
        )
        assert contents(after)[::2] == ["a", "b", "c"]


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_call_is_continued_with_only_its_output(replicas: list[Running], streamed: bool) -> None:
    with connected(replicas[1]) as client:
        asked = client.responses.create(model="told", input="rain?", tools=TOOLS, stream=streamed, store=True)
        if streamed:
            *_, last = asked
            asked = last.response
        (call,) = asked.output
        assert (call.type, call.name) == ("function_call", "weather")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
        told = client.responses.create(
            model="told", input=[output], tools=TOOLS, previous_response_id=asked.id
        )
        user, assistant, tool = json.loads(told.output_text)
        assert user["content"] == "rain?"
        assert assistant["tool_calls"] == [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Zug"}'},
            }
        ]
        assert (tool["tool_call_id"], tool["content"]) == ("call_1", "sun")


@pytest.mark.parametrize("streamed", [False, True])
def test_custom_tool_input_is_part_of_conversation(replicas: list[Running], streamed: bool) -> None:
    tools = [{"type": "custom", "name": "apply_patch"}]
    with connected(replicas[1]) as client:
        asked = client.responses.create(model="told", input="patch", tools=tools, stream=streamed, store=True)
        if streamed:
            *_, last = asked
            asked = last.response
        (call,) = asked.output
        assert (call.type, call.input) == ("custom_tool_call", "+ü")
        output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}
        told = client.responses.create(
            model="told", input=[output], tools=tools, previous_response_id=asked.id
        )
    _, assistant, tool = json.loads(told.output_text)
    (made,) = assistant["tool_calls"]
    assert (made["function"]["name"], json.loads(made["function"]["arguments"])) == (
        "apply_patch",
        {"input": "+ü"},
    )
    assert tool["content"] == "done"


def test_tampered_id_is_bad_request_naming_field(replicas: list[Running]) -> None:
    with connected(replicas[0]) as client:
        id = client.responses.create(model="told", input=SECRET).id
        for place in range(0, len(id), 7):
            changed = id[:place] + ("B" if id[place] == "A" else "A") + id[place + 1 :]
            with pytest.raises(openai.BadRequestError) as refused:
                client.responses.create(model="told", input="b", previous_response_id=changed)
            assert (refused.value.param, refused.value.code) == (
                "previous_response_id",
                "previous_response_not_found",
            )
            assert changed[:40] not in str(refused.value)


def test_unsupported_store_features_are_refused(replicas: list[Running]) -> None:
    with connected(replicas[0]) as client:
        id = client.responses.create(model="told", input="a").id
        for use in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
            with pytest.raises(openai.NotFoundError, match="responses are not stored"):
                use(id)
        with pytest.raises(openai.NotFoundError, match="conversations are not stored"):
            client.conversations.create()
        for field, value in (("background", True), ("conversation", "conv_1")):
            with pytest.raises(openai.BadRequestError, match="not stored"):
                client.responses.create(model="told", input="a", **{field: value})


def test_logs_and_records_contain_no_state(key_file: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    server = serve(tmp_path / "models", key_file, debug=True, record={"path": str(record), "bodies": True})
    with connected(server) as client:
        id = client.responses.create(model="told", input=SECRET).id
        *_, last = client.responses.create(
            model="told", input="b", previous_response_id=id, stream=True, store=True
        )
        for text in (id, last.response.id):
            for use in (client.responses.retrieve, client.responses.delete):
                with pytest.raises(openai.NotFoundError):
                    use(text)
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="told", input="b", previous_response_id=id[:-1])
        body = json.dumps({"model": "told", "input": "c", "previous_response_id": id})
        for headers in ({}, {"accept-encoding": "gzip"}):
            sent = httpx.post(f"{server.url}/v1/responses", content=body, headers=headers, timeout=20)
            assert sent.status_code == 200
    assert server.stop() == 0
    recorded = record.read_text()
    assert "previous_response_id" in recorded
    assert "ifs_state_[redacted]" in recorded
    for text in (id, last.response.id):
        assert text[:60] not in recorded + server.text()
        assert text[-60:] not in recorded + server.text()
    assert "canary" not in server.text()


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        ("A" * 43, 0o644, "other users have access to it; chmod 600 takes it from them"),
        ("my password", 0o600, "line 1 is not 32 bytes in base64"),
        (None, 0o600, "there is no such file"),
    ],
)
def test_invalid_key_file_aborts_startup(
    tmp_path: Path, content: str | None, mode: int, sentence: str
) -> None:
    key_file = tmp_path / "state.keys"
    if content is not None:
        key_file.write_text(content)
        key_file.chmod(mode)
    models = tmp_path / "models"
    models.mkdir()
    (models / "settings.json").write_text(json.dumps({"state_key_file": str(key_file)}))
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
    ended = subprocess.run(
        [*SERVER, "start", str(models), *ports], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert sentence in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr + ended.stdout
    assert content is None or content not in ended.stderr + ended.stdout
