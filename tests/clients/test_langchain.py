"""LangChain's client for OpenAI's API against a running server."""

import pytest

langchain = pytest.importorskip("langchain_openai", exc_type=ImportError)

import openai

from tests.serving import Running, eventually
from tests.texts import ended, idle, prompt

pytestmark = pytest.mark.filterwarnings("default")


def chat(texts: Running, model: str = "words", **more: object):
    """LangChain's chat client, with what is not OpenAI's in `extra_body`."""
    return langchain.ChatOpenAI(
        model=model, base_url=f"{texts.url}/v1", api_key="none", max_retries=0, timeout=20, extra_body=more
    )


def test_chat(texts: Running) -> None:
    text = prompt("grüße 🙂")
    answer = chat(texts).invoke(text)
    assert answer.content == text
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["output_tokens"] == 3


def test_a_stream(texts: Running) -> None:
    text = prompt("grüße 🙂")
    pieces = [piece.content for piece in chat(texts, "characters", size=3).stream(text)]
    assert "".join(pieces) == text
    assert len([piece for piece in pieces if piece]) > 3


async def test_async_api(texts: Running) -> None:
    text = prompt()
    assert (await chat(texts, "steps").ainvoke(text)).content == text
    assert "".join([piece.content async for piece in chat(texts, "steps").astream(text)]) == text


def test_messages_and_stop_strings(texts: Running) -> None:
    answer = chat(texts).invoke([("system", "be kind"), ("user", "hello you")], stop=["you"])
    assert answer.content == "system: be kind\nuser: hello "


def test_a_batch(texts: Running) -> None:
    texts_ = [prompt() for _ in range(8)]
    assert [answer.content for answer in chat(texts).batch(texts_)] == texts_


def test_a_completion(texts: Running) -> None:
    text = prompt()
    client = langchain.OpenAI(model="words", base_url=f"{texts.url}/v1", api_key="none", max_retries=0)
    assert client.invoke(text) == text
    assert "".join(client.stream(text)) == text


def test_embeddings(texts: Running) -> None:
    """It sends token ids unless it is told that the server takes texts."""
    client = langchain.OpenAIEmbeddings(
        model="vectors", base_url=f"{texts.url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    assert client.embed_documents(["a", "bcd"]) == [[1, 3, 4, 0], [3, 3, 4, 0]]
    assert client.embed_query("ab") == [2, 3, 4, 0]


def test_cancelled_stream_ends_model(texts: Running) -> None:
    text = prompt()
    stream = chat(texts, endless=True).stream(text)
    next(stream)
    assert not texts.noted(f"finally {text}")
    stream.close()
    ended(texts, text)
    eventually(lambda: idle(texts))


def test_errors(texts: Running) -> None:
    with pytest.raises(openai.NotFoundError):
        chat(texts, "nobody").invoke("x")
    with pytest.raises(openai.BadRequestError, match="top_p"):
        chat(texts, top_p=5).invoke("x")
    with pytest.raises(openai.APIError):
        list(chat(texts, fail_at=2).stream("a b c d"))
