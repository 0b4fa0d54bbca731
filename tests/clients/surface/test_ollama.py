"""Ollama's client, synchronous and asynchronous."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.serving import Running

from .rows import awaited, both, methods_of, without_a_row

ollama = pytest.importorskip("ollama")

SAID = [{"role": "user", "content": "one two"}]
FOLDERS = "models come from folders, not clients"
SKIPPED = {
    **dict.fromkeys(("pull", "push", "create", "create_blob", "copy", "delete"), FOLDERS),
    **dict.fromkeys(("web_search", "web_fetch"), "they ask ollama.com, whatever the host"),
    "systemone": "it asks a kind of model that only Ollama serves",
}
"""Methods that no test calls, and why."""


async def chat(client: Any) -> None:
    assert "one two" in (await awaited(client.chat(model="words", messages=SAID))).message.content


async def generate(client: Any) -> None:
    assert (await awaited(client.generate(model="words", prompt="one two"))).response == "one two"


async def embed(client: Any) -> None:
    answer = await awaited(client.embed(model="embed", input=["a"]))
    assert len(answer.embeddings) == 1


async def embeddings(client: Any) -> None:
    answer = await awaited(client.embeddings(model="embed", prompt="abc"))
    assert [*answer.embedding] == [3.0, 1.0]


async def listed(client: Any) -> None:
    assert "words" in {model.model.partition(":")[0] for model in (await awaited(client.list())).models}


async def ps(client: Any) -> None:
    assert "words" in {model.model.partition(":")[0] for model in (await awaited(client.ps())).models}


async def show(client: Any) -> None:
    assert "completion" in (await awaited(client.show("words"))).capabilities


async def close(client: Any) -> None:
    """The test closes its client."""


CALLS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "chat": chat,
    "generate": generate,
    "embed": embed,
    "embeddings": embeddings,
    "list": listed,
    "ps": ps,
    "show": show,
    "close": close,
}
KINDS = ("Client", "AsyncClient")


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_has_a_row(kind: str) -> None:
    assert without_a_row(methods_of(getattr(ollama, kind)), CALLS, SKIPPED) == []
    assert both(CALLS, SKIPPED) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
async def test_a_method(surface: Running, kind: str, name: str) -> None:
    client = getattr(ollama, kind)(host=surface.url, timeout=30)
    try:
        await CALLS[name](client)
    finally:
        await awaited(client.close())
