"""The AI SDK against a running server, over each API that it has a provider for."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving import Running

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()
SCRIPT = Path(__file__).with_name("ai_sdk.mjs")
PROVIDERS = ("compatible", "chat", "responses", "anthropic")
FILLED = {"name": "echo found-it", "age": 6}

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / "ai").is_dir(),
    reason="needs Node and a folder, named by NODE_CLIENTS, in which npm has installed ai",
)


def ask(server: Running, provider: str, action: str):
    """What the client got."""
    command = ["node", str(SCRIPT), str(FOLDER), server.url, provider, action]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("action", ["text", "stream"])
def test_text_and_usage(agent: Running, provider: str, action: str) -> None:
    found = ask(agent, provider, action)
    assert found == {"text": "It is hello ", "inputTokens": 1, "outputTokens": 3, "reason": "stop"}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("action", ["tools", "streamedTools"])
def test_tools(agent: Running, provider: str, action: str) -> None:
    assert ask(agent, provider, action) == "It is 36 "


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("action", ["object", "streamedObject"])
def test_structured_object(agent: Running, provider: str, action: str) -> None:
    assert ask(agent, provider, action) == FILLED


@pytest.mark.parametrize("provider", PROVIDERS)
def test_language_model(language: Running, provider: str) -> None:
    found = ask(language, provider, "stream")
    assert found["text"]
    assert found["inputTokens"] > 1
    if provider != "anthropic":  # whose provider only asks such a model for JSON
        assert ask(language, provider, "object")["age"] in (6, 33)
