"""OpenAI's own client of audio and images, with and without workers: functions of bytes, whole and streamed."""

import asyncio
import base64
import json
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.serving import Running, eventually
from tests.texts import idle

APP = """
import os
from collections.abc import Iterator
from typing import Literal

from typing_extensions import TypedDict

from inferstream import App, Event

app = App()


class Segment(TypedDict):
    start: float
    end: float
    text: str


def note(line: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(line + "\\n")


@app.model
def whole(
    audio: bytes,
    language: str = "",
    prompt: str = "",
    temperature: float = 0.0,
    task: Literal["transcribe", "translate"] = "transcribe",
) -> str:
    if prompt == "fail":
        raise ValueError("canary-/etc/secret-path")
    return f"{len(audio)} {sum(audio)} {language} {prompt} {temperature} {task}"


@app.model
def words(audio: bytes) -> Iterator[str]:
    for word in audio.decode().split():
        yield word + " "
        if word == "fail":
            raise ValueError("canary-/etc/secret-path")


@app.model
def segments(audio: bytes) -> Iterator[Segment]:
    for index, word in enumerate(audio.decode().split()):
        yield {"start": 3661.5 * index, "end": 3661.5 * index + 1, "text": " " + word}


@app.model
def transcript(audio: bytes) -> dict[str, object]:
    return {"text": audio.decode(), "language": "german", "duration": 2.5, "segments": []}


@app.model
def endless(audio: bytes) -> Iterator[str]:
    note("start transcribing")
    try:
        while True:
            yield "a"
    finally:
        note("finally transcribing")


@app.model
def speak(text: str, voice: str = "none", speed: float = 1.0) -> Iterator[bytes]:
    yield b"RIFF"
    for word in text.split():
        if word == "fail":
            raise ValueError("canary-/etc/secret-path")
        yield f"{voice} {speed} {word}\\n".encode()


@app.model
def speak_whole(text: str) -> bytes:
    return b"fLaC" + text.encode()


@app.model
def speak_typed(text: str) -> Iterator[bytes | Event]:
    yield Event("frame", text.encode(), media_type="audio/x-own")


@app.model
def speak_on(text: str) -> Iterator[bytes]:
    note(f"start {text}")
    try:
        while True:
            yield bytes(1000)
    finally:
        note(f"finally {text}")


@app.model
def draw(prompt: str, size: str = "small") -> bytes:
    return f"{prompt} {size}".encode()
"""

AUDIO = bytes(range(256)) * 4_000
"""A megabyte of all bytes: quotation marks and brackets, which JSON would have too many of."""

SUMMED = f"{len(AUDIO)} {sum(AUDIO)}"
SPOKEN = b"one two three"
ALL = "one two three "


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("audio") / "models"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def client(serving: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0, timeout=30) as opened:
        yield opened


@pytest.fixture
def other(serving: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0, timeout=30)


def test_file_is_transcribed(client: openai.OpenAI) -> None:
    asked = {"model": "whole", "file": ("a.wav", AUDIO, "audio/wav")}
    found = client.audio.transcriptions.create(**asked, language="de", prompt="hä", temperature=0.5)
    assert found.text == f"{SUMMED} de hä 0.5 transcribe"
    with pytest.deprecated_call():  # the client's own remark
        found = client.audio.translations.create(**asked)
    assert found.text == f"{SUMMED}   0.0 translate"
    assert client.audio.transcriptions.create(**asked, response_format="text") == f"{found.text}\n".replace(
        "translate", "transcribe"
    )


def test_large_file_is_transcribed(client: openai.OpenAI) -> None:
    found = client.audio.transcriptions.create(model="whole", file=("a", AUDIO * 8))
    assert found.text.startswith(f"{8 * len(AUDIO)} {8 * sum(AUDIO)} ")


@pytest.mark.parametrize("model", ["words", "segments", "transcript"])
def test_stream_is_transcribed_live_and_gathered(client: openai.OpenAI, model: str) -> None:
    asked = {"model": model, "file": ("a", SPOKEN)}
    whole = client.audio.transcriptions.create(**asked).text
    assert whole.split() == ALL.split()
    events = [*client.audio.transcriptions.create(**asked, stream=True)]
    assert "".join(event.delta for event in events[:-1]) == whole
    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert (events[-1].type, events[-1].text) == ("transcript.text.done", whole)
    assert len(events) == (2 if model == "transcript" else 4)


async def test_the_asynchronous_client(other: openai.AsyncOpenAI) -> None:
    async with other:
        found = await other.audio.transcriptions.create(model="words", file=("a", SPOKEN))
        assert found.text == ALL
        stream = await other.audio.transcriptions.create(model="words", file=("a", SPOKEN), stream=True)
        assert [event.type async for event in stream][-1] == "transcript.text.done"
        spoken = await other.audio.speech.create(model="speak", input="a", voice="alloy")
        assert spoken.content == b"RIFFalloy 1.0 a\n"
        drawn = await other.images.generate(model="draw", prompt="a")
        assert base64.b64decode(drawn.data[0].b64_json) == b"a small"


def test_segments_and_subtitles(client: openai.OpenAI) -> None:
    asked = {"model": "segments", "file": ("a", b"one two")}
    found = client.audio.transcriptions.create(**asked, response_format="verbose_json", language="en")
    assert [(each.id, each.start, each.end, each.text) for each in found.segments] == [
        (0, 0.0, 1.0, " one"),
        (1, 3661.5, 3662.5, " two"),
    ]
    assert (found.text, found.duration, found.language) == (" one two", 3662.5, "en")
    assert client.audio.transcriptions.create(**asked, response_format="srt") == (
        "1\n00:00:00,000 --> 00:00:01,000\none\n\n2\n01:01:01,500 --> 01:01:02,500\ntwo\n"
    )
    assert client.audio.transcriptions.create(**asked, response_format="vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\none\n\n01:01:01.500 --> 01:01:02.500\ntwo\n"
    )
    asked = {"model": "transcript", "file": ("a", b"one"), "response_format": "verbose_json"}
    found = client.audio.transcriptions.create(**asked)
    assert (found.text, found.duration, found.language, found.segments) == ("one", 2.5, "german", [])


def test_speech_is_streamed_with_media_type(client: openai.OpenAI) -> None:
    asked = {"model": "speak", "input": "one two", "voice": "alloy"}
    spoken = b"RIFFalloy 1.0 one\nalloy 1.0 two\n"
    with client.audio.speech.with_streaming_response.create(**asked) as response:
        assert response.headers["content-type"] == "audio/wav"
        assert "content-length" not in response.headers
        assert b"".join(response.iter_bytes()) == spoken
    found = client.audio.speech.create(**asked, response_format="opus", speed=2)
    assert found.response.headers["content-type"] == "audio/ogg"
    assert found.content == spoken.replace(b"1.0", b"2.0")
    found = client.audio.speech.create(model="speak_whole", input="a", voice="x")
    assert (found.response.headers["content-type"], found.content) == ("audio/flac", b"fLaCa")
    found = client.audio.speech.create(model="speak_typed", input="a", voice="x", response_format="mp3")
    assert (found.response.headers["content-type"], found.content) == ("audio/x-own", b"a")


@pytest.mark.parametrize(("model", "spoken"), [("speak", b"RIFFx 1.0 a\n"), ("speak_whole", b"fLaCa")])
def test_speech_as_events(serving: Running, model: str, spoken: bytes) -> None:
    body = {"model": model, "input": "a", "voice": {"id": "x"}, "stream_format": "sse"}
    found = httpx.post(f"{serving.url}/v1/audio/speech", json=body)
    assert found.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in found.text.splitlines() if line]
    assert b"".join(base64.b64decode(each["audio"]) for each in events[:-1]) == spoken
    assert events[-1]["type"] == "speech.audio.done"


def test_images(client: openai.OpenAI) -> None:
    found = client.images.generate(model="draw", prompt="a", n=3, size="1024x1024")
    assert [base64.b64decode(each.b64_json) for each in found.data] == [b"a 1024x1024"] * 3
    with pytest.raises(openai.BadRequestError, match="response_format: url is not taken"):
        client.images.generate(model="draw", prompt="a", response_format="url")


def test_mid_stream_failure_truncates_bytes(serving: Running, client: openai.OpenAI) -> None:
    body = {"model": "speak", "input": "one fail", "voice": "a"}
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{serving.url}/v1/audio/speech", json=body)
    with pytest.raises(openai.APIError, match="failed") as failed:
        [*client.audio.transcriptions.create(model="words", file=("a", b"one fail two"), stream=True)]
    assert "canary" not in str(failed.value)


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"model": "nobody"}, 404, "Model nobody not found"),
        ({"model": "speak"}, 400, "model: speak does not transcribe; a model that does is (audio: bytes)"),
        (
            {"response_format": "srt"},
            400,
            "response_format: srt needs segments, and whole returns texts alone",
        ),
        (
            {"response_format": "xml"},
            400,
            "response_format: must be one of json, text, verbose_json, srt, vtt",
        ),
        ({"temperature": "warm"}, 400, "temperature: must be a number"),
        ({"prompt": "fail"}, 500, "failed"),
        ({"prompt": "a" * 70_000}, 400, "prompt: is longer than 65536 bytes"),
        ({"stream": "perhaps"}, 400, "stream: must be one of"),
        ({"model": "segments", "response_format": "vtt", "stream": "true"}, 400, "vtt is not streamed"),
    ],
)
def test_form_errors(serving: Running, changes: dict, status: int, message: str) -> None:
    found = httpx.post(
        f"{serving.url}/v1/audio/transcriptions", data={"model": "whole", **changes}, files={"file": b"a"}
    )
    assert found.status_code == status
    assert message in found.json()["error"]["message"]
    assert "canary" not in found.text


@pytest.mark.parametrize(
    ("path", "changes", "status", "message"),
    [
        ("audio/speech", {"input": None}, 400, "input: is missing"),
        (
            "audio/speech",
            {"model": "whole"},
            400,
            "model: whole does not speak; a model that does is (text: str)",
        ),
        ("audio/speech", {"response_format": "midi"}, 400, "response_format: must be one of mp3"),
        ("audio/speech", {"voice": {"name": "a"}}, 400, "voice.id: is missing"),
        ("audio/speech", {"model": None}, 400, "The request names no model, and"),
        ("images/generations", {"model": "draw", "n": 11}, 400, "n: must be at most 10, got 11"),
        ("images/generations", {"model": "draw", "stream": True}, 400, "stream: is not taken"),
        ("images/generations", {"model": "whole"}, 400, "model: whole does not draw"),
    ],
)
def test_errors_of_speech_and_images(
    serving: Running, path: str, changes: dict, status: int, message: str
) -> None:
    body = {"model": "speak", "input": "a", "prompt": "a", "voice": "a", **changes}
    found = httpx.post(f"{serving.url}/v1/{path}", json=body)
    assert found.status_code == status
    assert message in found.json()["error"]["message"]


def test_untranslating_model_error_names_missing_input(client: openai.OpenAI) -> None:
    with (
        pytest.deprecated_call(),
        pytest.raises(openai.BadRequestError, match='words does not translate; it needs an input "task"'),
    ):
        client.audio.translations.create(model="words", file=("a", SPOKEN))


async def test_client_disconnect_ends_model(serving: Running, other: openai.AsyncOpenAI) -> None:
    async with other:
        stream = await other.audio.transcriptions.create(model="endless", file=("a", b"a"), stream=True)
        await anext(aiter(stream))
        await stream.close()
        asked = {"model": "speak_on", "input": "leaving", "voice": "a"}
        async with other.audio.speech.with_streaming_response.create(**asked) as response:
            await anext(response.iter_bytes())
    for line in ("finally transcribing", "finally leaving"):
        await asyncio.to_thread(eventually, lambda line=line: serving.noted(line))
    await asyncio.to_thread(eventually, lambda: idle(serving))
