"""vLLM on a CPU behind every API. `make engine` runs it, with the Python of vLLM in VLLM and weights in VLLM_MODEL."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, two_free_ports, write_model

PYTHON, WEIGHTS = os.environ.get("VLLM"), os.environ.get("VLLM_MODEL")

pytestmark = pytest.mark.skipif(not (PYTHON and WEIGHTS), reason="`make engine` runs it")

CONTEXT = 512
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
COLOURS = [{"role": "user", "content": "Name three colours."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "colours": {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 2, "maxItems": 2}
    },
    "required": ["colours"],
    "additionalProperties": False,
}


def write_engine(folder: Path, weights: str, **extra: Any) -> Path:
    port = two_free_ports()[0]
    sizes = ("--max-model-len", str(CONTEXT), "--max-num-batched-tokens", str(CONTEXT), "--max-num-seqs", "8")
    settings = {
        "target": f"127.0.0.1:{port}",
        "command": [
            *(str(PYTHON), "-m", "vllm.entrypoints.launchers.grpc_server", "--model", weights),
            *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", *sizes),
        ],
        "environment": {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
        **extra,
    }
    write_model(folder, "llm", "engine", parameters={"extra": settings})
    (folder / "settings.json").write_text(json.dumps({"model_load_timeout": 900}))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(write_engine(tmp_path_factory.mktemp("vllm") / "models", str(WEIGHTS)), within=900)
    yield running
    assert find_engines()
    assert running.stop(90) == 0, running.text()
    eventually(lambda: not find_engines(), 30)  # its children are killed last, and the kernel takes its time


def find_engines() -> list[int]:
    """Process IDs of the engines that servers have started."""
    start = f"{PYTHON}\0-m\0vllm.entrypoints".encode()
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if each.read_bytes().startswith(start):
                found.append(int(each.parent.name))
    return found


@pytest.fixture(scope="module")
def client(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=300, max_retries=0)


def ask(client: openai.OpenAI, messages: Any = QUESTION, **options: Any) -> Any:
    options = {"temperature": 0, "max_tokens": 24, **options}
    return client.chat.completions.create(model="llm", messages=messages, **options)


def text_of(completion: Any) -> str:
    return str(completion.choices[0].message.content)


def test_chat_streams_the_text_of_the_whole_response(client: openai.OpenAI) -> None:
    whole = ask(client)
    assert "Paris" in text_of(whole)
    assert whole.choices[0].finish_reason == "stop"
    chunks = [*ask(client, stream=True, stream_options={"include_usage": True})]
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == text_of(whole)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len(chunks) > 5


def test_every_api_returns_the_text(server: Running, client: openai.OpenAI) -> None:
    body: dict[str, Any] = {"model": "llm", "messages": QUESTION, "max_tokens": 24, "temperature": 0}
    expected = text_of(ask(client))

    def post(path: str, **body: Any) -> Any:
        response = httpx.post(f"{server.url}{path}", json=body, timeout=300)
        assert response.status_code == 200, response.text
        return response.json()

    responses = post("/v1/responses", model="llm", input=QUESTION, max_output_tokens=24, temperature=0)
    assert responses["output"][0]["content"][0]["text"] == expected
    assert post("/v1/messages", **body)["content"][0]["text"] == expected
    ollama = {"num_predict": 24, "temperature": 0}
    assert (
        post("/api/chat", model="llm", messages=QUESTION, stream=False, options=ollama)["message"]["content"]
        == expected
    )
    tgi = post("/generate", inputs="The capital of France is", parameters={"max_new_tokens": 1})
    assert tgi["generated_text"].strip() == "Paris"
    tensor = {"name": "messages", "shape": [1], "datatype": "BYTES", "data": [json.dumps(QUESTION)]}
    infer = {"inputs": [tensor], "parameters": {"max_tokens": 24, "temperature": 0}}
    assert post("/v2/models/llm/infer", **infer)["outputs"][0]["data"] == [expected]
    request = pb.ModelInferRequest(model_name="llm")
    request.inputs.add(name="messages", shape=[1], datatype="BYTES").contents.bytes_contents.append(
        json.dumps(QUESTION).encode()
    )
    request.parameters["max_tokens"].int64_param = 24
    request.parameters["temperature"].double_param = 0
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stream = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=300)
        pieces = [each.outputs[0].contents.bytes_contents[0] for each in stream]
    assert b"".join(pieces).decode() == expected
    assert len(pieces) > 5


def test_sampling_options_reach_the_engine(client: openai.OpenAI) -> None:
    assert len({text_of(ask(client, COLOURS, seed=5, temperature=1)) for _ in range(2)}) == 1
    choices = ask(client, COLOURS, n=3, seed=3, temperature=1).choices
    assert len({each.message.content for each in choices}) > 1
    assert text_of(ask(client, stop=["Paris"])) == "The capital of France is "
    assert ask(client, extra_body={"min_tokens": 24, "stop_token_ids": []}).usage.completion_tokens == 24
    assert text_of(ask(client, max_tokens=3, logit_bias={"339": 100})) == " I I I"
    [first, *_] = ask(client, max_tokens=2, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert first.token == first.top_logprobs[0].token == "The"
    assert first.logprob == first.top_logprobs[0].logprob < 0


def test_prompt_logprobs_and_echo(client: openai.OpenAI) -> None:
    prompt = "The capital of France is"
    options: dict[str, Any] = {"max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
    [choice] = client.completions.create(model="llm", prompt=prompt, **options).choices
    assert choice.text == f"{prompt} Paris"
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["The", " capital", " of", " France", " is", " Paris"]
    values = choice.logprobs.token_logprobs
    assert values is not None
    assert values[0] is None
    assert all(each < 0 for each in values[1:] if each is not None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            {"colours"},
        ),
        ({"extra_body": {"regex": "(red|blue)"}}, {"red", "blue"}),
        ({"extra_body": {"guided_choice": ["yes", "no"]}}, {"yes", "no"}),
        ({"extra_body": {"guided_grammar": 'root ::= "a" "b" "."'}}, {"ab."}),
    ],
    ids=["schema", "regex", "choice", "grammar"],
)
def test_structured_output(client: openai.OpenAI, options: dict[str, Any], expected: set[str]) -> None:
    text = text_of(ask(client, COLOURS, max_tokens=60, **options))
    if expected == {"colours"}:
        assert set(json.loads(text)["colours"]) <= {"red", "blue"}
    else:
        assert text in expected


def test_prompt_beyond_the_context_and_cached_prompt(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=f"maximum context length is {CONTEXT} tokens"):
        ask(client, [{"role": "user", "content": "word " * CONTEXT}])
    prompt = [{"role": "user", "content": "word " * 200}]
    usages = [ask(client, prompt, max_tokens=1).usage for _ in range(2)]
    assert usages[1].prompt_tokens_details.cached_tokens > 100


async def test_cancelled_streams_stop_the_engine(server: Running) -> None:
    body = {"model": "llm", "messages": COLOURS, "max_tokens": 400, "ignore_eos": True, "stream": True}
    async with httpx.AsyncClient(timeout=300) as http:

        async def leave() -> None:
            async with http.stream("POST", f"{server.url}/v1/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if '"content":"' in line:
                        break

        await asyncio.gather(*(leave() for _ in range(4)))

    def idle() -> bool:
        load = httpx.get(f"{server.url}/v2/load").json()
        return load["running"] == 0 and load["kv_usage"] == 0

    assert eventually(idle, 30)


def test_stream_continues_after_the_engine_is_killed(server: Running, client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"max_tokens": 60, "extra_body": {"ignore_eos": True}}
    expected = text_of(ask(client, COLOURS, **options))
    stream = ask(client, COLOURS, stream=True, **{**options, "extra_body": {"ignore_eos": True}})
    pieces = []
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        if len(pieces) == 5:
            for each in find_engines():
                os.kill(each, signal.SIGKILL)
            pieces.append("")
    assert "".join(pieces) == expected
    assert "a request continues after" in server.text()
