"""OpenAI's client for Node against a running server. It lies in the folder that NODE_CLIENTS names."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving import Running, eventually
from tests.texts import ended, idle, prompt, said

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()
SCRIPT = Path(__file__).with_name("openai.mjs")

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / "openai").is_dir(),
    reason="needs Node and a folder, named by NODE_CLIENTS, in which npm has installed openai",
)


def ask(texts: Running, action: str, **options: object):
    """What the client got."""
    command = ["node", str(SCRIPT), str(FOLDER), f"{texts.url}/v1", action, json.dumps(options)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def test_models(texts: Running) -> None:
    assert {"words", "versions:1"} <= set(ask(texts, "models"))


def test_chat_and_completion(texts: Running) -> None:
    text = prompt("grüße 🙂")
    answer = ask(texts, "chat", model="words", messages=said(text), n=2)
    assert [choice["message"]["content"] for choice in answer["choices"]] == [text, text]
    answer = ask(texts, "completion", model="words", prompt=[text, "b"], stop="🙂")
    assert [choice["text"] for choice in answer["choices"]] == [text[:-1], "b"]


def test_a_stream(texts: Running) -> None:
    text = prompt("grüße 🙂")
    options = {"include_usage": True}
    *chunks, last = ask(texts, "stream", model="characters", messages=said(text), stream_options=options)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["completion_tokens"] == len(text.encode())


def test_embeddings(texts: Running) -> None:
    """The client asks for base64 by itself."""
    assert ask(texts, "embeddings", model="vectors", input=["a", "bcd"]) == [[1, 3, 4, 0], [3, 3, 4, 0]]


@pytest.mark.parametrize("action", ["leave", "abort"])
def test_cancelled_stream_ends_model(texts: Running, action: str) -> None:
    text = prompt()
    ask(texts, action, model="words", messages=said(text), endless=True)
    ended(texts, text)
    eventually(lambda: idle(texts))


def test_errors(texts: Running) -> None:
    failed = ask(texts, "chat", model="nobody", messages=said("x"))["failed"]
    assert (failed["status"], failed["code"], failed["param"]) == (404, "model_not_found", "model")
    failed = ask(texts, "chat", model="words", messages=said("x"), n=0)["failed"]
    assert (failed["status"], failed["param"], failed["type"]) == (400, "n", "invalid_request_error")
    failed = ask(texts, "stream", model="words", messages=said("a b c"), fail_at=2)["failed"]
    assert failed["type"] == "server_error"
    assert "canary" not in failed["message"]
