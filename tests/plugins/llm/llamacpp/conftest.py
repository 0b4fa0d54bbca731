"""Fixtures with the stand-in for the network."""

import sys
from pathlib import Path

import pytest
from llguidance import LLTokenizer

from inferstream import ModelSettings
from inferstream.plugins.llm.llamacpp import LlamaCppModel
from inferstream.plugins.llm.llamacpp import model as model_module

from .stand_in import LIBRARY, Network, settings_of


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[Network]:
    Network.made.clear()
    monkeypatch.setitem(sys.modules, "llama_cpp", LIBRARY)
    monkeypatch.setattr(model_module, "Network", Network)
    monkeypatch.setattr(LlamaCppModel, "_build_grammar_tokenizer", lambda self: LLTokenizer("byte"))
    return Network


@pytest.fixture
def served(tmp_path: Path, stand_in: type[Network]) -> ModelSettings:
    (tmp_path / "some.gguf").touch()
    return settings_of(tmp_path)
