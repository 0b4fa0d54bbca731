"""A language model of transformers over SSE, in the server and in worker processes."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

from tests.plugins.llm.transformers import tiny
from tests.serving import Running, eventually

PROMPTS = [" ".join(tiny.WORDS[: 1 + index % 7]) for index in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language") / "models"
    tiny.write(folder / "tiny", context=2048, prefill_budget=8)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path, workers: int) -> Iterator[Running]:
    flags = {"INFERSTREAM_PARALLEL_WORKERS": str(workers), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    running = Running(folder, within=180, **flags)
    yield running
    assert running.stop() == 0, running.text()


def events(server: Running, **body: object) -> Iterator[dict]:
    url = f"{server.url}/v2/models/tiny/generate_stream"
    with httpx.Client(timeout=120) as client, connect_sse(client, "POST", url, json=body) as source:
        assert source.response.status_code == 200, source.response.read()
        for event in source.iter_sse():
            yield json.loads(event.data)


def test_streams_equal_generate(served: Running, folder: Path) -> None:
    alone = tiny.Alone(folder / "tiny")

    def one(index: int) -> str:
        options = {"seed": index, "temperature": 0.9, "top_k": 30} if index % 2 else {}
        found = list(events(served, prompt=PROMPTS[index], max_tokens=15, **options))
        assert found[-1]["finish_reason"] in ("stop", "length")
        return "".join(each["text"] for each in found)

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(one, range(8)))
    for index, text in enumerate(texts):
        options = {"seed": index, "temperature": 0.9, "top_k": 30} if index % 2 else {}
        assert text == alone.text(alone.tokens(PROMPTS[index], 15, **options))


def test_metadata_lists_inputs(served: Running) -> None:
    metadata = httpx.get(f"{served.url}/v2/models/tiny", timeout=20).json()
    assert [each["name"] for each in metadata["inputs"]] == [
        "prompt",
        "messages",
        "chat_template_kwargs",
        "response_format",
    ]
    assert all(each["parameters"] == {"optional": True} for each in metadata["inputs"])
    assert [each["name"] for each in metadata["outputs"]] == ["text"]


def test_model_lists_contain_context_length(served: Running) -> None:
    listed = httpx.get(f"{served.url}/v1/models").json()["data"][0]
    assert (listed["max_model_len"], listed["context_length"], listed["meta"]) == (
        2048,
        2048,
        {"n_ctx": 2048},
    )
    assert httpx.get(f"{served.url}/v1/models/tiny").json()["max_model_len"] == 2048
    anthropic = {"anthropic-version": "2023-06-01"}
    for path, found in (("", lambda body: body["data"][0]), ("/tiny", lambda body: body)):
        answer = httpx.get(f"{served.url}/v1/models{path}", headers=anthropic).json()
        assert found(answer)["max_input_tokens"] == 2048
    info = httpx.post(f"{served.url}/api/show", json={"name": "tiny"}).json()["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] == 2048
    assert httpx.get(f"{served.url}/api/ps").json()["models"][0]["context_length"] == 2048
    info_of_tgi = httpx.get(f"{served.url}/info").json()
    assert (info_of_tgi["max_input_tokens"], info_of_tgi["max_total_tokens"]) == (2047, 2048)
    parameters = httpx.get(f"{served.url}/v2/models/tiny").json()["parameters"]
    facts = {"context_length": 2048, "failover_timeout": 30.0}
    assert parameters == {**facts, "architecture": info["general.architecture"]}


def test_oversized_messages_are_counted(served: Running) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "one " * 3000}]}
    answer = httpx.post(f"{served.url}/v1/messages/count_tokens", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["input_tokens"] > 3000


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages", "/api/generate"])
def test_each_api_refuses_oversized_prompt(served: Running, path: str) -> None:
    long = "one " * 3000
    fields = {"prompt": long, "input": long, "messages": [{"role": "user", "content": long}], "max_tokens": 4}
    needed = {"/v1/responses": ["input"], "/v1/messages": ["messages", "max_tokens"]}.get(path, ["prompt"])
    body = {"model": "tiny", **{name: fields[name] for name in needed}}
    answer = httpx.post(served.url + path, json=body, timeout=60)
    assert answer.status_code == 400
    assert re.search("context_length_exceeded|prompt is too long: 60|exceeds the context length", answer.text)


def test_disconnect_ends_stream(served: Running) -> None:
    def active() -> float:
        return served.metric("inferstream_streams_active", model="tiny")

    opened = events(served, prompt="one", ignore_eos=True)
    next(opened)
    eventually(lambda: active() == 1, 20)
    opened.close()
    eventually(lambda: active() == 0, 20)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": "one", "temperature": -1}, "temperature is 0 or more, not -1."),
        ({"prompt": "one " * 3000}, "maximum context length is 2048 tokens."),
        ({"messages": "[{}]"}, "Each of the messages is an object with a role."),
    ],
)
def test_wrong_requests_are_400_before_the_stream(served: Running, body: dict, message: str) -> None:
    response = httpx.post(f"{served.url}/v2/models/tiny/generate_stream", json=body, timeout=60)
    assert response.status_code == 400
    assert message in response.text


def test_chats_are_rendered_with_template(served: Running, folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "tiny" / "artefacts")
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two "}]
    continues = {"continue_final_message": True, "add_generation_prompt": False}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    told = [{"role": role, "content": "one"} for role in ("developer", "user")]
    called = [*said[:1], {"role": "assistant", "content": None, "tool_calls": [call]}]
    late = [*said, {"role": "system", "content": "three"}, said[0]]
    asked = [
        ("/v1/chat/completions", {"messages": said, **continues}, "<user>one</s><assistant>two "),
        ("/v1/messages", {"messages": said}, "<user>one</s><assistant>two "),
        ("/v1/chat/completions", {"messages": told}, "<system>one</s><user>one</s><assistant>"),
        ("/v1/chat/completions", {"messages": called}, "<user>one</s><assistant></s><assistant>"),
        (
            "/v1/chat/completions",
            {"messages": late},
            "<user>one</s><assistant>two </s><system>three</s><user>one</s><assistant>",
        ),
    ]
    for path, body, prompt in asked:
        found = httpx.post(f"{served.url}{path}", json={"model": "tiny", "max_tokens": 1, **body}, timeout=60)
        assert found.status_code == 200, found.text
        usage = found.json()["usage"]
        count = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        assert usage.get("prompt_tokens", usage.get("input_tokens")) == count, prompt
    options = {"messages": json.dumps(said), "chat_template_kwargs": json.dumps(continues), "max_tokens": 1}
    *_, last = events(served, **options)
    assert last["prompt_tokens"] == len(tokenizer(asked[0][2], add_special_tokens=False)["input_ids"])
