"""Clients that leave, texts that end early, deadlines: the model is ended, and no slot is lost."""

import asyncio
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from openai import APIStatusError, APITimeoutError, AsyncOpenAI

from tests.serving import Running, eventually
from tests.texts import client, ended, idle, prompt, said, write_text_models

ENDLESS = {"endless": True}
ENDLESS_MODELS = ["words", "blocking-words", "steps"]

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("model", ENDLESS_MODELS)
def test_closed_stream_ends_model(texts: Running, model: str, n: int) -> None:
    text = prompt()
    with client(texts).chat.completions.create(
        model=model, messages=said(text), stream=True, n=n, extra_body=ENDLESS
    ) as stream:
        next(stream)
        eventually(lambda: texts.log.read_text().count(f"start {text}") == n, 10)
        assert not texts.noted(f"finally {text}")
    eventually(lambda: texts.log.read_text().count(f"finally {text}") == n, 10)
    eventually(lambda: idle(texts))


async def test_closed_async_stream_ends_model(texts: Running) -> None:
    text = prompt()
    async with AsyncOpenAI(base_url=f"{texts.url}/v1", api_key="none", max_retries=0) as openai:
        stream = await openai.chat.completions.create(
            model="words", messages=said(text), stream=True, extra_body=ENDLESS
        )
        async for _ in stream:
            break
        assert not texts.noted(f"finally {text}")
        await stream.close()
        await asyncio.to_thread(ended, texts, text)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("model", ["words", "blocking-words", "steps", "whole"])
def test_early_disconnect_ends_model(texts: Running, model: str, n: int, streamed: bool) -> None:
    text = prompt()
    more = {"seconds": 600} if model == "whole" else ENDLESS
    body = {"model": model, "messages": said(text), "n": n, "stream": streamed, **more}
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", texts.http_port)) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
        eventually(lambda: texts.log.read_text().count(f"start {text}") == n, 20)
        assert not texts.noted(f"finally {text}")
    eventually(lambda: texts.log.read_text().count(f"finally {text}") == n, 10)
    eventually(lambda: idle(texts))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("end", [{"stop": ["more more"]}, {"max_tokens": 7}], ids=["stop", "max_tokens"])
@pytest.mark.parametrize("model", ENDLESS_MODELS)
def test_finished_text_ends_model(texts: Running, model: str, end: dict, streamed: bool) -> None:
    text = prompt()
    options = {"model": model, "messages": said(text), "stream": streamed, "extra_body": ENDLESS}
    answer = client(texts).chat.completions.create(**options, **end)
    reason = [*answer][-1].choices[0].finish_reason if streamed else answer.choices[0].finish_reason
    assert reason == ("stop" if "stop" in end else "length")
    ended(texts, text)
    eventually(lambda: idle(texts))


def test_client_timeout_ends_model(texts: Running) -> None:
    text = prompt()
    with pytest.raises(APITimeoutError):
        client(texts).with_options(timeout=0.5).chat.completions.create(
            model="whole", messages=said(text), extra_body={"seconds": 600}
        )
    ended(texts, text)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_deadline_is_an_error_object(texts: Running, n: int, streamed: bool) -> None:
    text = prompt()
    with pytest.raises(APIStatusError) as late:
        client(texts).chat.completions.create(
            model="words",
            messages=said(text),
            n=n,
            stream=streamed,
            extra_headers={"X-Request-Timeout": "0.2"},
            extra_body={"before": 600},
        )
    assert late.value.status_code == 504
    assert late.value.code == "timeout"
    assert late.value.type == "server_error"
    eventually(lambda: idle(texts))


@pytest.mark.parametrize("n", [1, 2])
def test_deadline_of_partially_gathered_text(texts: Running, n: int) -> None:
    text = prompt()
    with pytest.raises(APIStatusError) as late:
        client(texts).chat.completions.create(model="impatient", messages=said(text), n=n, extra_body=ENDLESS)
    assert late.value.status_code == 504
    ended(texts, text)


def test_choices_over_concurrency_limit_are_refused(texts: Running) -> None:
    text = prompt()
    options = {"model": "one-at-a-time", "messages": said(text), "stream": True}
    with pytest.raises(APIStatusError) as refused:
        client(texts).chat.completions.create(**options, n=2, extra_body=ENDLESS)
    assert refused.value.status_code == 429
    assert refused.value.code == "rate_limit_exceeded"
    eventually(lambda: idle(texts))
    answer = client(texts).chat.completions.create(**options)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in answer) == text


def test_two_thousand_requests_lose_no_slot(texts: Running) -> None:
    """Of every kind: whole, streamed, several, refused, stopped, failed, left."""
    kinds = [
        {},
        {"stream": True},
        {"n": 2},
        {"n": 2, "stream": True, "stop": [" two"]},
        {"stop": " two"},
        {"max_tokens": 1, "stream": True},
        {"n": 0},
        {"model": "nobody"},
        {"fail_at": 1},
        {"fail_at": 1, "stream": True, "n": 2},
        {"model": "steps", "n": 2},
    ]
    statuses: set[int] = set()

    def ask(numbers: range) -> None:
        with httpx.Client(base_url=texts.url, timeout=30) as http:
            for number in numbers:
                body = {"model": "words", "messages": said("one two three"), **kinds[number % len(kinds)]}
                if number % 50 == 0:  # leaves in the middle
                    with http.stream(
                        "POST", CHAT, json={**body, "model": "words", "stream": True, "endless": True}
                    ):
                        continue
                statuses.add(http.post(CHAT, json=body).status_code)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, (range(start, 2000, 8) for start in range(8))))
    assert statuses == {200, 400, 404, 500}
    eventually(lambda: idle(texts), 10)


def test_shutdown_lets_texts_finish(tmp_path: Path, serve: Callable[..., Running]) -> None:
    running = serve(write_text_models(tmp_path / "models"))
    text = prompt("w " * 30)
    stream = client(running).chat.completions.create(model="steps", messages=said(text), n=2, stream=True)
    next(stream)
    running.begin_stop()
    found = ["", ""]
    for chunk in stream:
        for choice in chunk.choices:
            found[choice.index] += choice.delta.content or ""
    assert found == [text, text]
    assert running.stop() == 0
