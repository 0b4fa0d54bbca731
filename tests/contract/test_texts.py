"""A text is the same over every door and in every dialect, at the same moment and wherever its model runs."""

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from threading import Barrier

import httpx
import pytest
from anthropic import Anthropic
from httpx_sse import connect_sse
from ollama import Client

from tests.contract.doors import DOORS, LIMIT, Asked
from tests.contract.hosts import HOSTS, Host
from tests.texts import client, said

WORDS = "einmal grüße 👩‍👩‍👧 an   日本,\nund zurück"

_names = count()


@cache
def anthropic_client(url: str) -> Anthropic:
    return Anthropic(base_url=url, api_key="none", max_retries=0, timeout=LIMIT)


@pytest.fixture(scope="module", params=HOSTS.values(), ids=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = request.param(tmp_path_factory.mktemp("texts"))
    # Before threads make one each, of which only one would be closed.
    clients = client(running), anthropic_client(running.url)
    yield running
    for each in clients:
        each.close()
    assert running.stop() == 0


def chat(host: Host, model: str) -> str:
    answer = client(host).chat.completions.create(model=model, messages=said(WORDS))
    return answer.choices[0].message.content


def chat_stream(host: Host, model: str) -> str:
    stream = client(host).chat.completions.create(model=model, messages=said(WORDS), stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def second_chat_stream(host: Host, model: str) -> str:
    stream = client(host).chat.completions.create(model=model, messages=said(WORDS), stream=True, n=2)
    found = [choice for chunk in stream for choice in chunk.choices if choice.index == 1]
    return "".join(choice.delta.content or "" for choice in found)


def completion(host: Host, model: str) -> str:
    return client(host).completions.create(model=model, prompt=["x", WORDS]).choices[1].text


def completion_stream(host: Host, model: str) -> str:
    stream = client(host).completions.create(model=model, prompt=WORDS, stream=True)
    return "".join(chunk.choices[0].text for chunk in stream)


def response(host: Host, model: str) -> str:
    return client(host).responses.create(model=model, input=WORDS).output_text


def response_stream(host: Host, model: str) -> str:
    events = client(host).responses.create(model=model, input=WORDS, stream=True)
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def message(host: Host, model: str) -> str:
    asked = {"model": model, "max_tokens": 100, "messages": said(WORDS)}
    return anthropic_client(host.url).messages.create(**asked).content[0].text


def message_stream(host: Host, model: str) -> str:
    asked = {"model": model, "max_tokens": 100, "messages": said(WORDS)}
    with anthropic_client(host.url).messages.stream(**asked) as stream:
        return "".join(stream.text_stream)


def ollama_chat(host: Host, model: str) -> str:
    with Client(host=host.url, timeout=LIMIT) as ollama:
        return ollama.chat(model=model, messages=said(WORDS)).message.content


def ollama_chat_stream(host: Host, model: str) -> str:
    with Client(host=host.url, timeout=LIMIT) as ollama:
        parts = ollama.chat(model=model, messages=said(WORDS), stream=True)
        return "".join(part.message.content for part in parts)


def ollama_completion_stream(host: Host, model: str) -> str:
    with Client(host=host.url, timeout=LIMIT) as ollama:
        parts = ollama.generate(model=model, prompt=WORDS, stream=True)
        return "".join(part.response for part in parts)


def flat(host: Host, model: str) -> str:
    """Triton's `generate`."""
    body = {"prompt": WORDS}
    return httpx.post(f"{host.url}/v2/models/{model}/generate", json=body, timeout=LIMIT).json()["text"]


def tgi(host: Host, model: str) -> str:
    body = {"inputs": WORDS, "model": model, "parameters": {"max_new_tokens": 100}}
    return httpx.post(f"{host.url}/generate", json=body, timeout=LIMIT).json()["generated_text"]


def tgi_stream(host: Host, model: str) -> str:
    body = {"inputs": WORDS, "model": model, "parameters": {"max_new_tokens": 100}}
    return "".join(
        json.loads(event)["token"]["text"] for event in events(f"{host.url}/generate_stream", body)
    )


def plain_stream(host: Host, model: str) -> str:
    body = {"prompt": WORDS, "model": model, "stream": True}
    found = events(f"{host.url}/generate", body)
    assert found.pop() == "[DONE]"
    return "".join(json.loads(event)["token"] for event in found)


def events(url: str, body: dict) -> list[str]:
    with httpx.Client(timeout=LIMIT) as http, connect_sse(http, "POST", url, json=body) as source:
        return [event.data for event in source.iter_sse()]


def tool(host: Host, model: str, **arguments: str) -> str:
    """A call of MCP."""
    params = {"name": model, "arguments": arguments or {"prompt": WORDS}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx.post(f"{host.url}/mcp", json=body, timeout=LIMIT).json()["result"]["content"][0]["text"]


def tool_progress(host: Host, model: str) -> str:
    """What a call of MCP tells of its progress, where its model streams."""
    params = {"name": model, "arguments": {"prompt": WORDS}, "_meta": {"progressToken": "p"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    found = [json.loads(event) for event in events(f"{host.url}/mcp", body)]
    result = found.pop()["result"]
    assert not result.get("isError")
    told = "".join(message["params"]["message"] for message in found)
    assert told == result["content"][0]["text"]
    return told


def transcription(host: Host, model: str) -> str:
    return client(host).audio.transcriptions.create(model=model, file=("a.wav", WORDS.encode())).text


def transcription_stream(host: Host, model: str) -> str:
    file = ("a.wav", WORDS.encode())
    heard = client(host).audio.transcriptions.create(model=model, file=file, stream=True)
    return "".join(event.delta for event in heard if event.type == "transcript.text.delta")


def heard_by_tool(host: Host, model: str) -> str:
    return tool(host, model, text=base64.b64encode(WORDS.encode()).decode())


def heard_flat(host: Host, model: str) -> str:
    body = {"text": base64.b64encode(WORDS.encode()).decode()}
    return "".join(
        json.loads(event)["output"] for event in events(f"{host.url}/v2/models/{model}/generate_stream", body)
    )


def speech(host: Host, model: str) -> str:
    return client(host).audio.speech.create(model=model, input=WORDS, voice="alloy").content.decode()


def speech_stream(host: Host, model: str) -> str:
    speaking = client(host).audio.speech.with_streaming_response
    with speaking.create(model=model, input=WORDS, voice="alloy") as sound:
        return b"".join(sound.iter_bytes()).decode()


def spoken_flat(host: Host, model: str) -> str:
    found = events(f"{host.url}/v2/models/{model}/generate_stream", {"text": WORDS})
    return b"".join(base64.b64decode(json.loads(event)["output"]) for event in found).decode()


TEXTS: dict[str, Callable[[Host, str], str]] = {
    "chat": chat,
    "chat-stream": chat_stream,
    "second-chat-stream": second_chat_stream,
    "completion": completion,
    "completion-stream": completion_stream,
    "response": response,
    "response-stream": response_stream,
    "message": message,
    "message-stream": message_stream,
    "ollama-chat": ollama_chat,
    "ollama-chat-stream": ollama_chat_stream,
    "ollama-completion-stream": ollama_completion_stream,
    "tgi": tgi,
    "tgi-stream": tgi_stream,
    "plain-stream": plain_stream,
    "tool": tool,
}


def over(door) -> Callable[[Host, str], str]:
    """The text that a V2 stream gives."""
    return lambda host, model: "".join(door.stream(host, Asked(model, f"text-{next(_names)}", {}, WORDS)))


STREAMS = {**{name: over(door) for name, door in DOORS.items()}, **TEXTS, "tool-progress": tool_progress}

RPCS = {name: over(DOORS[name]) for name in ("grpc", "triton", "grpc-web")}
"""The doors that send and show bytes as they are."""

SOUNDS: dict[str, Callable[[Host, str], str]] = {
    "transcription": transcription,
    "transcription-stream": transcription_stream,
    "tool": heard_by_tool,
    "flat": heard_flat,
    **RPCS,
}
SPOKEN = {"speech": speech, "speech-stream": speech_stream, "flat": spoken_flat, **RPCS}


def single(door) -> Callable[[Host, str], str]:
    """The text that a V2 response has."""
    return lambda host, model: door.single(host, Asked(model, f"text-{next(_names)}", {}, WORDS))


SINGLES = {**{name: single(door) for name, door in DOORS.items()}, "flat": flat, **TEXTS}


def at_once(host: Host, model: str, ways: dict[str, Callable[[Host, str], str]]) -> dict[str, str]:
    """The text that each way gives, all of them asked at the same moment."""
    together = Barrier(len(ways))

    def ask(way: Callable[[Host, str], str]) -> str:
        together.wait(LIMIT)
        return way(host, model)

    with ThreadPoolExecutor(len(ways)) as pool:
        return dict(zip(ways, pool.map(ask, ways.values()), strict=True))


@pytest.mark.parametrize("model", ["words", "blocking-words", "tokens", "steps"])
def test_streamed_text_is_equal_in_every_api(host: Host, model: str) -> None:
    assert at_once(host, model, STREAMS) == dict.fromkeys(STREAMS, WORDS)


def test_gathered_text_is_equal_in_every_api(host: Host) -> None:
    assert at_once(host, "whole", SINGLES) == dict.fromkeys(SINGLES, f"all of {WORDS}")


def test_transcription_is_equal_in_every_api(host: Host) -> None:
    assert at_once(host, "hearing", SOUNDS) == dict.fromkeys(SOUNDS, WORDS)


def test_speech_is_equal_in_every_api(host: Host) -> None:
    assert at_once(host, "speaking", SPOKEN) == dict.fromkeys(SPOKEN, WORDS)
