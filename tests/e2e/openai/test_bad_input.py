"""What is wrong is refused by its name before any token; what fails is one error."""

import json
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from openai import APIError, BadRequestError, InternalServerError, NotFoundError

from tests.serving import Running, eventually
from tests.texts import client, idle, prompt, said, write_text_models

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO = said("hello")


def image(url: str) -> list[dict]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


CHATS = {
    "no model": ({"messages": HELLO, "model": None}, "model"),
    "model is no name": ({"model": 5}, "model"),
    "no messages": ({"messages": None}, "messages"),
    "messages are empty": ({"messages": []}, "messages"),
    "messages are a text": ({"messages": "hello"}, "messages"),
    "a message is a text": ({"messages": ["hello"]}, "messages[0]"),
    "no role": ({"messages": [{"content": "x"}]}, "messages[0].role"),
    "wrong role": ({"messages": [*HELLO, {"role": "wizard", "content": "x"}]}, "messages[1].role"),
    "role is no name": ({"messages": [{"role": 1, "content": "x"}]}, "messages[0].role"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "content is a number": ({"messages": said(5)}, "messages[0].content"),
    "part of no type": (
        {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
        "messages[0].content[0].type",
    ),
    "part of an unknown type": (
        {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
        "messages[0].content[0].type",
    ),
    "n is 0": ({"n": 0}, "n"),
    "n is large": ({"n": 10**6}, "n"),
    "n is a part": ({"n": 1.5}, "n"),
    "n is true": ({"n": True}, "n"),
    "negative temperature": ({"temperature": -0.1}, "temperature"),
    "high temperature": ({"temperature": 2.1}, "temperature"),
    "temperature is a text": ({"temperature": "warm"}, "temperature"),
    "top_p over 1": ({"top_p": 1.1}, "top_p"),
    "presence penalty": ({"presence_penalty": -3}, "presence_penalty"),
    "frequency penalty": ({"frequency_penalty": 3}, "frequency_penalty"),
    "seed": ({"seed": 2**70}, "seed"),
    "max_tokens is 0": ({"max_tokens": 0}, "max_tokens"),
    "max_tokens is huge": ({"max_tokens": 10**30}, "max_tokens"),
    "max_completion_tokens": ({"max_completion_tokens": -2}, "max_completion_tokens"),
    "too many stop strings": ({"stop": ["a"] * 65}, "stop"),
    "empty stop string": ({"stop": ["a", ""]}, "stop"),
    "stop is a number": ({"stop": 5}, "stop"),
    "a stop string without end": ({"stop": "x" * 100_000}, "stop"),
    "stream is a text": ({"stream": "yes"}, "stream"),
    "stream options without stream": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "stream options": ({"stream": True, "stream_options": 5}, "stream_options"),
    "include usage": (
        {"stream": True, "stream_options": {"include_usage": "x"}},
        "stream_options.include_usage",
    ),
    "logprobs of a model without": ({"logprobs": True}, "logprobs"),
    "logprobs are a number": ({"model": "tokens", "logprobs": 5}, "logprobs"),
    "top_logprobs alone": ({"model": "tokens", "top_logprobs": 5}, "top_logprobs"),
    "too many top_logprobs": ({"model": "tokens", "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    "logit_bias": ({"logit_bias": [1]}, "logit_bias"),
    "tools of a model without": (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools",
    ),
    "tools are none": ({"tools": [5]}, "tools[0]"),
    "JSON mode of a model without": ({"response_format": {"type": "json_object"}}, "response_format"),
    "response format": ({"response_format": {"type": "poem"}}, "response_format.type"),
    "image for a model without": ({"messages": image("data:image/png;base64,AAAA")}, "messages"),
    "image that is not base64": (
        {"model": "messages", "messages": image("data:image/png;base64,A?")},
        "messages[0].content[0].image_url",
    ),
    "image to be fetched": (
        {"model": "messages", "messages": image("http://127.0.0.1/cat.png")},
        "messages[0].content[0].image_url",
    ),
    "image without URL": (
        {"model": "messages", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
    ),
    "messages that the template refuses": (
        {"model": "tokenizer", "messages": [*HELLO, {"role": "user", "content": "x", "name": "nobody"}]},
        "messages",
    ),
    "messages that break the template": (
        {"model": "tokenizer", "messages": [{"role": "user", "content": "x", "tool_call_id": 5}]},
        "messages",
    ),
    "not for this route": ({"model": "vectors"}, "model"),
    "takes no text": ({"model": "numbers"}, "model"),
    "declared parameter": ({"model": "sampling", "top_k": "many"}, None),
}

PROMPTS = {
    "no prompt": ({"prompt": None}, "prompt"),
    "token ids": ({"prompt": [1, 2, 3]}, "prompt"),
    "several token ids": ({"prompt": [[1, 2], [3]]}, "prompt"),
    "prompts are empty": ({"prompt": []}, "prompt"),
    "prompt is an object": ({"prompt": {}}, "prompt"),
    "too many prompts": ({"prompt": ["x"] * 129}, "prompt"),
    "too many texts": ({"prompt": ["x"] * 2, "n": 100}, "prompt"),
    "best_of": ({"best_of": 2}, "best_of"),
    "suffix of a model without": ({"suffix": "x"}, "suffix"),
    "too many logprobs": ({"logprobs": 6}, "logprobs"),
    "logprobs of a model without": ({"logprobs": 1}, "logprobs"),
    "n is 0": ({"n": 0}, "n"),
    "model of messages": ({"model": "messages"}, "model"),
}


def ask(server: Running, path: str, **body: object) -> dict:
    answer = httpx.post(f"{server.url}{path}", json=body, timeout=20)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 500
    return error


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("body", "param"), CHATS.values(), ids=CHATS)
def test_invalid_chat_names_its_field(texts: Running, body: dict, param: str | None, streamed: bool) -> None:
    stream = {} if "stream_options" in body else {"stream": streamed}
    error = ask(texts, CHAT, **{"model": "words", "messages": HELLO, **stream, **body})
    assert error["param"] == param
    assert (param or "top_k").split(".")[-1] in error["message"]


@pytest.mark.parametrize(("body", "param"), PROMPTS.values(), ids=PROMPTS)
def test_invalid_completion_names_its_field(texts: Running, body: dict, param: str) -> None:
    assert ask(texts, COMPLETIONS, **{"model": "words", "prompt": "hello", **body})["param"] == param


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"hello",
        b"5",
        b"null",
        b'["model"]',
        b'{"model": "words", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "words", "messages": [{"role": "user", "content": "\xff"}]}',
        b'{"model": "words", "messages": ' + b"[" * 100_000,
        b'{"model": "words", "messages": [{"role": "user", "content": "x"}], "seed": NaN}',
        b'{"model": "words", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"model": "words", "messages": [{"role": "user", "content": "x"}], "top_p": Infinity}',
        b'{"model": "words", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1e400}',
        b'{"model": "words", "model": "whole", "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "words", "messages": [{"role": "user", "role": "system", "content": "x"}]}',
    ],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/embeddings"])
def test_malformed_body_is_refused(texts: Running, path: str, body: bytes) -> None:
    answer = httpx.post(f"{texts.url}{path}", content=body, timeout=20)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("model", ["messages", "words", "sampling"])
@pytest.mark.parametrize(
    "more",
    [
        b'"logit_bias": ' + b'{"a":' * 300 + b"1" + b"}" * 300,
        b'"tools": [{"type": "function", "x": ' + b"[" * 400 + b"]" * 400 + b"}]",
        b'"tool_choice": ' + b"[" * 400 + b"]" * 400,
        b'"top_k": 123456789012345678901234567890',
        b'"top_k": 1.5',
        b'"top_k": true',
        b'"min_p": 1e308',
        b'"metadata": ' + b'{"a":' * 900 + b"1" + b"}" * 900,
        b'"text": "\\u0000"',
    ],
)
def test_unusual_request_is_served_or_refused(texts: Running, model: str, more: bytes) -> None:
    for content in (b'"x"', b'[{"type": "text", "text": "x", "more": ' + b"[" * 400 + b"]" * 400 + b"}]"):
        body = b'{"model": "%s", "messages": [{"role": "user", "content": %s}], %s}'
        answer = httpx.post(f"{texts.url}{CHAT}", content=body % (model.encode(), content, more), timeout=20)
        assert answer.status_code in (200, 400), answer.text


@pytest.mark.parametrize(
    "name", ["nobody", "hidden", "words:7", "versions:3", "versions:", ":", "", "a/b", "nobody:1:2"]
)
def test_an_unknown_model_is_not_found(texts: Running, name: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        client(texts).chat.completions.create(model=name, messages=HELLO)
    assert (refused.value.param, refused.value.code) == ("model", "model_not_found")
    if name not in ("", "a/b", "hidden"):  # KServe's clients ask there for every model
        with pytest.raises(NotFoundError):
            client(texts).models.retrieve(name)


@pytest.mark.parametrize(
    "name",
    [
        "n",
        "stream",
        "stream_options",
        "stop",
        "max_tokens",
        "temperature",
        "seed",
        "tools",
        "logprobs",
        "top_k",
    ],
)
def test_null_means_absent(texts: Running, name: str) -> None:
    body = {"model": "saying", "messages": HELLO, name: None}
    answer = httpx.post(f"{texts.url}{CHAT}", json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    said = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert said == {"inputs": {"prompt": ["hello"]}, "parameters": {}}


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-encoding": "br"}, b"{}", 415),
        ({"content-encoding": "gzip"}, b"{}", 400),
        ({"x-request-timeout": "soon"}, b'{"model": "words", "messages": []}', 400),
    ],
)
def test_transfer_errors_are_error_objects(texts: Running, headers: dict, body: bytes, status: int) -> None:
    answer = httpx.post(f"{texts.url}{CHAT}", content=body, headers=headers, timeout=20)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_oversized_body_is_an_error_object(texts: Running) -> None:
    connection = HTTPConnection("127.0.0.1", texts.http_port, timeout=20)
    connection.putrequest("POST", CHAT)
    connection.putheader("content-length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error"]["code"] == "request_too_large"
    connection.close()


def test_a_wrong_method_or_path(texts: Running) -> None:
    assert httpx.get(f"{texts.url}{CHAT}").status_code == 405
    assert httpx.post(f"{texts.url}/v1/nothing", json={}).status_code == 404


def test_prompt_refused_by_model(texts: Running) -> None:
    for stream in (False, True):
        with pytest.raises(BadRequestError) as refused:
            client(texts).chat.completions.create(
                model="words", messages=HELLO, stream=stream, extra_body={"too_long": True}
            )
        assert refused.value.param == "prompt"
        assert "longer than the context" in refused.value.message


@pytest.mark.parametrize("n", [1, 2])
def test_failure_before_first_token_is_a_status(texts: Running, n: int) -> None:
    for stream in (False, True):
        with pytest.raises(InternalServerError) as failed:
            client(texts).chat.completions.create(
                model="words", messages=said(prompt()), n=n, stream=stream, extra_body={"fail_at": 0}
            )
        assert failed.value.type == "server_error"
        assert "canary" not in str(failed.value)
    eventually(lambda: idle(texts))


@pytest.mark.parametrize("n", [1, 2])
def test_mid_stream_failure_is_one_error_event(texts: Running, n: int) -> None:
    options = {"model": "words", "messages": said(prompt("a b c d")), "stream": True}
    stream = client(texts).chat.completions.create(**options, n=n, extra_body={"fail_at": 3})
    found = []
    with pytest.raises(APIError) as failed:
        for chunk in stream:
            found += [choice.delta.content for choice in chunk.choices]
    assert " a" in found
    assert failed.value.type == "server_error"
    assert "canary" not in str(failed.value)
    answer = httpx.post(f"{texts.url}{CHAT}", json={**options, "n": n, "fail_at": 3})
    events = [event for event in answer.text.split("\n\n") if event]
    assert ["error" in json.loads(event.removeprefix("data: ")) for event in events][-2:] == [False, True]
    assert "[DONE]" not in answer.text
    assert answer.text.count('"error"') == 1
    eventually(lambda: idle(texts))


def test_failure_while_gathering_text_is_a_status(texts: Running) -> None:
    with pytest.raises(InternalServerError):
        client(texts).chat.completions.create(
            model="words", messages=said(prompt("a b c")), extra_body={"fail_at": 2}
        )


def test_two_models_without_default(tmp_path: Path, serve: Callable[..., Running]) -> None:
    running = serve(write_text_models(tmp_path / "models", default_model=None))
    with pytest.raises(BadRequestError, match="default_model"):
        client(running).chat.completions.create(model="tgi", messages=HELLO)
