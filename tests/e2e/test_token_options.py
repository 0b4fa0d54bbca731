"""Options about tokens over every text API of a language model of transformers: biases, log probabilities, numbers."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

for package in ("torch", "transformers", "llguidance"):
    pytest.importorskip(package)
pytestmark = pytest.mark.filterwarnings("ignore")

from tests.artefacts import transformer_models
from tests.plugins.llm.transformers import tiny
from tests.serving import Running

PROMPT = "one über two 🙂"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens") / "models"
    tiny.write(folder / "tiny", prefill_budget=4)
    for name, extra in (("pooled", {"backend": "transformers"}), ("encoded", {})):
        (folder / name).mkdir()
        transformer_models.sentences(folder / name / "artefacts")
        settings = {
            "name": name,
            "implementation": "inferstream.plugins.llm.embeddings.EmbeddingsModel",
            "parameters": {"uri": "./artefacts", "extra": extra},
        }
        (folder / name / "model-settings.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    running = Running(folder, within=180, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    yield running.url
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def alone(folder: Path) -> tiny.Alone:
    return tiny.Alone(folder / "tiny")


def posted(url: str, path: str, **body: Any) -> httpx.Response:
    named = {} if path.startswith("/v2") else {"model": "tiny"}
    return httpx.post(f"{url}{path}", json={**named, **body}, timeout=60)


def completed(url: str, **body: Any) -> dict[str, Any]:
    answer = posted(url, "/v1/completions", **{"prompt": PROMPT, "temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


SAID = [{"role": "user", "content": "one"}]
BIAS = {"logit_bias": {"40": 100}}
BIASED = {
    "chat": ("/v1/chat/completions", {"messages": SAID, "max_tokens": 3, **BIAS}),
    "completions": ("/v1/completions", {"prompt": "one", "max_tokens": 3, **BIAS}),
    "responses": ("/v1/responses", {"input": "one", "max_output_tokens": 3, **BIAS}),
    "anthropic": ("/v1/messages", {"messages": SAID, "max_tokens": 3, **BIAS}),
    "ollama": ("/api/chat", {"messages": SAID, "stream": False, "options": {"num_predict": 3, **BIAS}}),
    "tgi": ("/generate", {"inputs": "one", "parameters": {"max_new_tokens": 3, **BIAS}}),
    "generate": ("/v2/models/tiny/generate", {"prompt": "one", "max_tokens": 3, "logit_bias": '{"40": 100}'}),
}


@pytest.mark.parametrize("sampled", [{}, {"temperature": 0.5, "seed": 1}], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("path", "body"), BIASED.values(), ids=BIASED)
def test_logit_bias_determines_text(
    url: str, alone: tiny.Alone, path: str, body: dict[str, Any], sampled: dict[str, Any]
) -> None:
    within = next((name for name in ("options", "parameters") if name in body), None)
    body = {**body, within: {**body[within], **sampled}} if within else {**body, **sampled}
    answer = posted(url, path, **body)
    assert answer.status_code == 200, answer.text
    assert alone.tokenizer.decode([40]) * 3 in answer.text


@pytest.mark.parametrize(
    "bias", [{"300": 1}, {"-1": 1}, {"a": 1}, {"1": 101}, {"1": "1"}, {"1": None}, [1], {"9" * 5000: 1}]
)
def test_invalid_bias_is_named(url: str, bias: Any) -> None:
    answer = posted(url, "/v1/completions", prompt="one", logit_bias=bias)
    assert answer.status_code == 400
    assert "logit_bias" in answer.json()["error"]["message"]


def test_logit_bias_applies_only_to_own_text(url: str) -> None:
    plain = completed(url, max_tokens=5)["choices"][0]["text"]
    assert completed(url, max_tokens=5, logit_bias={})["choices"][0]["text"] == plain
    assert completed(url, max_tokens=5, **BIAS)["choices"][0]["text"] != plain
    assert completed(url, max_tokens=5)["choices"][0]["text"] == plain


def texts_of(tokens: list[dict[str, Any]]) -> bytes:
    return bytes(byte for token in tokens for byte in token["bytes"])


def chat_tokens(url: str) -> tuple[list[dict[str, Any]], str]:
    body = {"messages": SAID, "temperature": 0, "max_tokens": 20, "logprobs": True, "top_logprobs": 5}
    choice = posted(url, "/v1/chat/completions", **body).json()["choices"][0]
    return choice["logprobs"]["content"], choice["message"]["content"]


def response_tokens(url: str) -> tuple[list[dict[str, Any]], str]:
    included = {"include": ["message.output_text.logprobs"], "top_logprobs": 5}
    body = {"input": "one", "temperature": 0, "max_output_tokens": 20, **included}
    part = posted(url, "/v1/responses", **body).json()["output"][0]["content"][0]
    return part["logprobs"], part["text"]


def ollama_tokens(url: str) -> tuple[list[dict[str, Any]], str]:
    body = {"messages": SAID, "stream": False, "logprobs": True, "top_logprobs": 5}
    answer = posted(url, "/api/chat", **body, options={"temperature": 0, "num_predict": 20}).json()
    return answer["logprobs"], answer["message"]["content"]


@pytest.mark.parametrize("ask", [chat_tokens, response_tokens, ollama_tokens])
def test_partial_characters_have_bytes(url: str, ask: Any) -> None:
    tokens, text = ask(url)
    assert texts_of(tokens).decode(errors="replace") == text
    for token in tokens:
        top = token["top_logprobs"]
        assert len(top) == 5
        assert [each["logprob"] for each in top] == sorted((each["logprob"] for each in top), reverse=True)
        assert math.isclose(top[0]["logprob"], token["logprob"], abs_tol=1e-4)
        assert top[0]["token"] == token["token"]
    assert any(token["token"].startswith("bytes:\\x") for token in tokens)


def prompt_logprobs(alone: tiny.Alone, numbers: list[int]) -> list[float]:
    import torch

    with torch.inference_mode():
        logprobs = alone.model(torch.tensor([numbers])).logits[0].log_softmax(-1)
    return [float(logprobs[at, number]) for at, number in enumerate(numbers[1:])]


@pytest.mark.parametrize("as_numbers", [False, True], ids=["text", "numbers"])
def test_echo_has_prompt_log_probabilities(url: str, alone: tiny.Alone, as_numbers: bool) -> None:
    numbers = alone.tokenizer(PROMPT)["input_ids"]
    expected = prompt_logprobs(alone, numbers)
    for _ in range(2):  # the second time the prompt is in the cache
        body = {"prompt": numbers if as_numbers else PROMPT, "echo": True, "logprobs": 2, "max_tokens": 2}
        choice = completed(url, **body)["choices"][0]
        found = choice["logprobs"]
        assert choice["text"].startswith(PROMPT)
        assert found["token_logprobs"][0] is None
        assert found["token_logprobs"][1 : len(numbers)] == pytest.approx(expected, abs=1e-3)
        assert len(found["tokens"]) == len(numbers) + 2
        assert found["top_logprobs"][0] is None
        assert all(len(top) == 2 for top in found["top_logprobs"][1:])
        characters = [choice["text"][at] for at in found["text_offset"][:5]]
        assert found["text_offset"][0] == 0
        assert [token[0] for token in found["tokens"][:5] if "bytes:" not in token] == [
            character
            for token, character in zip(found["tokens"], characters, strict=False)
            if "bytes:" not in token
        ]


def test_echo_with_several_prompts_and_choices(url: str, alone: tiny.Alone) -> None:
    body = {"prompt": ["one", "two three"], "n": 2, "echo": True, "logprobs": 0, "max_tokens": 1}
    choices = completed(url, **body)["choices"]
    for choice, prompt in zip(choices, ["one", "one", "two three", "two three"], strict=True):
        count = len(alone.tokenizer(prompt)["input_ids"])
        assert choice["text"].startswith(prompt)
        assert "".join(choice["logprobs"]["tokens"][:count]) == prompt
        assert choice["logprobs"]["token_logprobs"][0] is None


def test_a_streamed_echo(url: str, alone: tiny.Alone) -> None:
    body = {"prompt": "one two", "echo": True, "logprobs": 1, "max_tokens": 3, "stream": True}
    lines = posted(url, "/v1/completions", **body).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    choices = [choice for event in events for choice in event["choices"]]
    tokens = [token for each in choices if each["logprobs"] for token in each["logprobs"]["tokens"]]
    count = len(alone.tokenizer("one two")["input_ids"])
    assert "".join(tokens[:count]) == "one two"
    assert len(tokens) == count + 3
    assert "".join(each["text"] for each in choices).startswith("one two")


@pytest.mark.parametrize("prompt", [[1, 300], [1, -1], [[1], ["a"]], [[]], [[1], 2], [1.5]])
def test_invalid_prompt_token_ids_are_named(url: str, prompt: Any) -> None:
    answer = posted(url, "/v1/completions", prompt=prompt)
    assert answer.status_code == 400
    assert "prompt" in answer.json()["error"]["message"]


def test_token_ids_are_the_prompt(url: str, alone: tiny.Alone) -> None:
    numbers = alone.tokenizer(PROMPT)["input_ids"]
    assert (
        completed(url, prompt=numbers, max_tokens=8)["choices"][0]["text"]
        == (completed(url, max_tokens=8)["choices"][0]["text"])
    )


@pytest.mark.parametrize("model", ["pooled", "encoded"])
def test_token_ids_are_embedded_unchanged(url: str, model: str) -> None:
    numbers = transformer_models.tokenizer()("the sky is blue")["input_ids"]
    shorter = transformer_models.tokenizer()("hello")["input_ids"]
    texts = posted(url, "/v1/embeddings", model=model, input=["the sky is blue", "hello"]).json()
    for given, expected in ((numbers, texts["data"][:1]), ([numbers, shorter], texts["data"])):
        answer = posted(url, "/v1/embeddings", model=model, input=given)
        assert answer.status_code == 200, answer.text
        for one, other in zip(answer.json()["data"], expected, strict=True):
            assert one["embedding"] == pytest.approx(other["embedding"], abs=1e-4)


@pytest.mark.parametrize("given", [[1, 10**6], [-1], [[1], [2.5]], [[]], [1] * 100], ids=str)
def test_invalid_token_ids_to_embed_are_named(url: str, given: Any) -> None:
    answer = posted(url, "/v1/embeddings", model="pooled", input=given)
    assert answer.status_code == 400
    assert "input" in answer.json()["error"]["message"]


FORMATS = ("date-time", "path", "int32", "uri-reference", "color", "idn-email")
FORMED = {
    "chat": lambda schema: (
        "/v1/chat/completions",
        {
            "messages": SAID,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        },
    ),
    "guided": lambda schema: ("/v1/completions", {"prompt": "one", "guided_json": schema}),
    "responses": lambda schema: (
        "/v1/responses",
        {"input": "one", "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}},
    ),
    "anthropic": lambda schema: (
        "/v1/messages",
        {"messages": SAID, "output_config": {"format": {"type": "json_schema", "schema": schema}}},
    ),
    "ollama": lambda schema: ("/api/chat", {"messages": SAID, "format": schema, "stream": False}),
    "tgi": lambda schema: (
        "/generate",
        {"inputs": "one", "parameters": {"max_new_tokens": 4, "grammar": {"type": "json", "value": schema}}},
    ),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("api", FORMED)
def test_unknown_format_is_a_warning(url: str, api: str, format: str) -> None:
    field = {"type": "string", "format": format}
    schema = {
        "type": "object",
        "properties": {"format": field, "a": {"anyOf": [field, {"type": "null"}]}},
        "$defs": {"x": {"type": "array", "items": field}},
        "required": ["format"],
    }
    path, body = FORMED[api](schema)
    limit = {"max_output_tokens": 4} if api == "responses" else {"max_tokens": 4}
    answer = posted(url, path, **limit, **body) if api != "tgi" else posted(url, path, **body)
    assert answer.status_code == 200, answer.text


def test_v2_log_probabilities_need_a_stream(url: str) -> None:
    body = {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["one"]}]}
    answer = httpx.post(f"{url}/v2/models/tiny/infer", json={**body, "parameters": {"logprobs": True}})
    assert answer.status_code == 400
    assert "logprobs" in answer.text


@pytest.mark.parametrize("name", ["repeat_last_n", "bad_words", "stop", "n", "what"])
def test_unknown_v2_parameter_is_named(url: str, name: str) -> None:
    body = {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["one"]}]}
    answer = httpx.post(f"{url}/v2/models/tiny/infer", json={**body, "parameters": {name: 1}})
    assert answer.status_code == 400
    assert name in answer.text
