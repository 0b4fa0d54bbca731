"""LiteLLM against a running server."""

import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch prices while it is imported
litellm = pytest.importorskip("litellm", exc_type=ImportError)

import openai

from tests.serving import Running, eventually
from tests.texts import ended, idle, prompt, said

pytestmark = pytest.mark.filterwarnings("default")  # its own, and those of what it depends on


@pytest.fixture
def options(texts: Running) -> dict:
    return {"api_base": f"{texts.url}/v1", "api_key": "none", "num_retries": 0, "timeout": 20}


def test_chat(options: dict) -> None:
    text = prompt("grüße 🙂")
    answer = litellm.completion(model="openai/words", messages=said(text), **options)
    assert answer.choices[0].message.content == text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 3


def test_a_stream(options: dict) -> None:
    text = prompt("grüße 🙂")
    stream = litellm.completion(
        model="openai/characters",
        messages=said(text),
        stream=True,
        stream_options={"include_usage": True},
        **options,
    )
    chunks = [*stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert any(chunk.choices and chunk.choices[0].finish_reason == "stop" for chunk in chunks)
    assert chunks[-1].usage.completion_tokens == len(text.encode())


async def test_async_api(options: dict) -> None:
    text = prompt()
    answer = await litellm.acompletion(model="openai/steps", messages=said(text), **options)
    assert answer.choices[0].message.content == text
    stream = await litellm.acompletion(model="openai/steps", messages=said(text), stream=True, **options)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == text


def test_text_completion(options: dict) -> None:
    text = prompt()
    answer = litellm.text_completion(model="text-completion-openai/words", prompt=text, n=2, **options)
    assert [choice.text for choice in answer.choices] == [text, text]


def test_embeddings(options: dict) -> None:
    answer = litellm.embedding(model="openai/vectors", input=["a", "bcd"], **options)
    assert [found["embedding"] for found in answer.data] == [[1, 3, 4, 0], [3, 3, 4, 0]]


def test_stop_string_and_max_tokens(options: dict) -> None:
    answer = litellm.completion(model="openai/words", messages=said("a b c"), stop=["b"], **options)
    assert answer.choices[0].message.content == "a "
    answer = litellm.completion(model="openai/words", messages=said("a b c"), max_tokens=2, **options)
    assert answer.choices[0].finish_reason == "length"


def test_cancelled_stream_ends_model(texts: Running, options: dict) -> None:
    text = prompt()
    stream = litellm.completion(
        model="openai/words", messages=said(text), stream=True, extra_body={"endless": True}, **options
    )
    next(iter(stream))
    assert not texts.noted(f"finally {text}")
    stream.completion_stream.close()
    ended(texts, text)
    eventually(lambda: idle(texts))


def test_errors(options: dict) -> None:
    with pytest.raises(litellm.NotFoundError, match="nobody"):
        litellm.completion(model="openai/nobody", messages=said("x"), **options)
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(model="openai/words", messages=said("x"), temperature=-1, **options)
    stream = litellm.completion(
        model="openai/words", messages=said("a b c"), stream=True, extra_body={"fail_at": 2}, **options
    )
    with pytest.raises(openai.APIError):
        list(stream)
