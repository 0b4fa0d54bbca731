"""Anthropic's client, synchronous; the asynchronous one has the same methods."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tests.serving import Running

from .rows import both, methods_of, without_a_row

anthropic = pytest.importorskip("anthropic")

SAID: Any = [{"role": "user", "content": "one two"}]
ASKED: Any = {"model": "words", "max_tokens": 64, "messages": SAID}

PLATFORM = "a service of Anthropic's own, which keeps what it is about"
RAW = "another way to send what the other methods send"
SKIPPED = {
    **dict.fromkeys(("organization.*", "skills.*", "user_profiles.*", "files.*"), PLATFORM),
    "messages.batches.*": PLATFORM,
    "beta.messages.batches.*": PLATFORM,
    "beta.messages.thread": "it keeps a conversation in the client, and sends messages.create",
    "beta.messages.tool_runner": "it calls tools in the client, and sends messages.create",
    "beta.[!m]*": PLATFORM,
    "beta.memory_stores.*": PLATFORM,
    **dict.fromkeys(("get", "post", "put", "patch", "delete", "request", "get_api_list"), RAW),
    **dict.fromkeys(("is_closed", "platform_headers", "copy", "with_middleware"), "it asks no server"),
}
"""Methods that no test calls, and why. What ends with `*` is a group."""


class Place(BaseModel):
    city: str


def create(messages: Any) -> None:
    assert "one two" in messages.create(**ASKED).content[0].text


def stream(messages: Any) -> None:
    with messages.stream(**ASKED) as streamed:
        pieces = [*streamed.text_stream]
    assert len(pieces) > 1
    assert "one two" in "".join(pieces)


def parse(messages: Any) -> None:
    answer = messages.parse(model="city", max_tokens=64, messages=SAID, output_format=Place)
    assert answer.parsed_output == Place(city="Bern")


def count_tokens(messages: Any) -> None:
    with pytest.raises(anthropic.APIStatusError) as refused:  # of a model that cannot count
        messages.count_tokens(model="words", messages=SAID)
    assert refused.value.status_code in (400, 501)


def listed(models: Any) -> None:
    assert "words" in {model.id for model in models.list()}


def retrieve(models: Any) -> None:
    assert models.retrieve("words").id == "words"
    with pytest.raises(anthropic.NotFoundError):
        models.retrieve("nobody")


CALLS: dict[str, Callable[[Any], None]] = {
    "messages.create": create,
    "messages.stream": stream,
    "messages.parse": parse,
    "messages.count_tokens": count_tokens,
    "models.list": listed,
    "models.retrieve": retrieve,
}
BETA = {f"beta.{name}": call for name, call in CALLS.items()}


@pytest.fixture
def client(surface: Running) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=surface.url, api_key="none", max_retries=0, timeout=30) as client:
        yield client


def test_every_method_has_a_row(client: Any) -> None:
    assert without_a_row(methods_of(client), [*CALLS, *BETA, "close"], SKIPPED) == []
    assert both([*CALLS, *BETA], SKIPPED) == []


@pytest.mark.parametrize("name", [*CALLS, *BETA])
def test_a_method(client: Any, name: str) -> None:
    if name not in [*methods_of(client)]:
        pytest.skip(f"this version of the client has no {name}")
    group, _, _ = name.rpartition(".")
    resource = client
    for part in group.split("."):
        resource = getattr(resource, part)
    (CALLS | BETA)[name](resource)


def test_close(client: Any) -> None:
    client.close()
    assert client.is_closed()
