"""OpenAI's client, synchronous; the asynchronous one has the same methods."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tests.serving import Running

from .rows import both, methods_of, without_a_row

openai = pytest.importorskip("openai")

SAID: Any = [{"role": "user", "content": "one two"}]
FILE = ("a.wav", b"RIFF" + bytes(12))

PLATFORM = "a service of OpenAI's own, which keeps what it is about"
FILES = "models come from folders, and the server keeps no files of clients"
UNSTORED = "the server stores no texts"
RAW = "another way to send what the other methods send"
SKIPPED = {
    **dict.fromkeys(("admin.*", "evals.*", "fine_tuning.*", "webhooks.*", "skills.*", "safety.*"), PLATFORM),
    **dict.fromkeys(("beta.agents.*", "beta.assistants.*", "beta.threads.*", "beta.chatkit.*"), PLATFORM),
    **dict.fromkeys(
        ("content_provenance_checks.*", "decisions.*", "containers.*", "conversations.*"), PLATFORM
    ),
    **dict.fromkeys(("audio.voices.*", "audio.voice_consents.*"), PLATFORM),
    **dict.fromkeys(("files.*", "uploads.*", "batches.*", "vector_stores.*"), FILES),
    **dict.fromkeys(("chat.completions.list", "chat.completions.messages.*"), UNSTORED),
    **dict.fromkeys(
        ("chat.completions.retrieve", "chat.completions.update", "chat.completions.delete"), UNSTORED
    ),
    **dict.fromkeys(("responses.cancel", "responses.compact", "responses.input_items.*"), UNSTORED),
    "responses.input_tokens.*": "the server does not know the tokens of a prompt",
    "responses.connect": "a WebSocket of OpenAI's; /v2/models/NAME/stream is ours",
    "beta.chat.*": "the same requests as chat.*",
    "beta.responses.*": "the same requests as responses.*",
    **dict.fromkeys(("realtime.*", "beta.realtime.*", "live.*"), "speech in both directions is not here"),
    **dict.fromkeys(("images.edit", "images.create_variation"), "images go out and not in"),
    "videos.*": "there are no videos",
    "moderations.create": "there are no moderations",
    "models.delete": FILES,
    **dict.fromkeys(("get", "post", "put", "patch", "delete", "request", "get_api_list"), RAW),
    **dict.fromkeys(("is_closed", "platform_headers", "copy"), "it asks no server"),
}
"""Methods that no test calls, and why. What ends with `*` is a group."""


class Place(BaseModel):
    city: str


def chat(client: Any) -> None:
    answer = client.chat.completions.create(model="words", messages=SAID)
    assert "one two" in answer.choices[0].message.content


def chat_stream(client: Any) -> None:
    with client.chat.completions.stream(model="words", messages=SAID) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    assert len(deltas) > 1
    assert "one two" in "".join(deltas)


def chat_parse(client: Any) -> None:
    answer = client.chat.completions.parse(model="city", messages=SAID, response_format=Place)
    assert answer.choices[0].message.parsed == Place(city="Bern")


def completions(client: Any) -> None:
    assert client.completions.create(model="words", prompt="one two").choices[0].text == "one two"


def embeddings(client: Any) -> None:
    answer = client.embeddings.create(model="embed", input=["a", "abc"])
    assert [each.embedding for each in answer.data] == [[1.0, 1.0], [3.0, 1.0]]


def responses(client: Any) -> None:
    assert "one two" in client.responses.create(model="words", input="one two").output_text


def responses_stream(client: Any) -> None:
    with client.responses.stream(model="words", input="one two") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "one two" in "".join(deltas)


def responses_parse(client: Any) -> None:
    answer = client.responses.parse(model="city", input="one", text_format=Place)
    assert answer.output_parsed == Place(city="Bern")


def responses_retrieve(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="There is no such response"):
        client.responses.retrieve("resp_1")


def responses_delete(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="There is no such response"):
        client.responses.delete("resp_1")


def models_list(client: Any) -> None:
    assert {"words", "embed"} <= {model.id for model in client.models.list()}


def models_retrieve(client: Any) -> None:
    assert client.models.retrieve("words").id == "words"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def transcriptions(client: Any) -> None:
    assert client.audio.transcriptions.create(model="hear", file=FILE).text == "16 transcribe"


def translations(client: Any) -> None:
    assert client.audio.translations.create(model="hear", file=FILE).text == "16 translate"


def speech(client: Any) -> None:
    answer = client.audio.speech.create(model="speak", voice="alloy", input="hello")
    assert answer.read() == b"hello"


def images(client: Any) -> None:
    answer = client.images.generate(model="draw", prompt="cat")
    assert base64.b64decode(answer.data[0].b64_json) == b"\x89PNGcat"


def close(client: Any) -> None:
    client.close()
    assert client.is_closed()


CALLS: dict[str, Callable[[Any], None]] = {
    "chat.completions.create": chat,
    "chat.completions.stream": chat_stream,
    "chat.completions.parse": chat_parse,
    "completions.create": completions,
    "embeddings.create": embeddings,
    "responses.create": responses,
    "responses.stream": responses_stream,
    "responses.parse": responses_parse,
    "responses.retrieve": responses_retrieve,
    "responses.delete": responses_delete,
    "models.list": models_list,
    "models.retrieve": models_retrieve,
    "audio.transcriptions.create": transcriptions,
    "audio.translations.create": translations,
    "audio.speech.create": speech,
    "images.generate": images,
    "close": close,
}


@pytest.fixture
def client(surface: Running) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{surface.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


def test_every_method_has_a_row(client: Any) -> None:
    assert without_a_row(methods_of(client), CALLS, SKIPPED) == []
    assert both(CALLS, SKIPPED) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # translations are, for OpenAI
@pytest.mark.parametrize("name", CALLS)
def test_a_method(client: Any, name: str) -> None:
    if name not in [*methods_of(client)]:
        pytest.skip(f"this version of the client has no {name}")
    CALLS[name](client)
