"""Structured output: tries a client's format with the library before a stream uses it."""

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from inferstream.plugins.text.fields import field_error

from ..grammars.matching import MAX_REASON_LENGTH, FormedText, Grammars
from ..grammars.structural_tag import build_tag

MAX_SECONDS = 1.0
"""Maximum time to compile a format, which delays the other streams when its stream starts."""

PLACE = re.compile(r".*\.(?:cc|cpp|h|hpp):\d+:\s*(?:Check failed: \(.*?\) is false:\s*)?", re.DOTALL)
"""The place in the source of the library before a message."""


class LibraryText(FormedText):
    """Text whose format the library enforces. It is complete at an end token."""

    __slots__ = ("_ends", "config")

    def __init__(self, config: Any, ends: frozenset[int]) -> None:
        super().__init__(None)
        self.config, self._ends = config, ends

    def add_token(self, token: int) -> bool:
        return token in self._ends


class LibraryFormats(Grammars):
    """Compiles formats in a background thread. `build_trial` returns a function that tries a configuration."""

    def __init__(
        self, library: Any, build_trial: Callable[[], Callable[[Any], None]], ends: frozenset[int]
    ) -> None:
        super().__init__(lambda: None)
        self._library, self._build_trial, self._ends = library, build_trial, ends
        self._trial: Callable[[Any], None] | None = None
        self._lock = threading.Lock()

    def restrict(self, grammar: Any, name: str) -> FormedText:
        return LibraryText(grammar, self._ends)

    def _compile(self, form: str, name: str) -> Any:
        """Return the configuration of a format, which the library compiles again for each stream."""
        try:
            config = build_format(self._library, json.loads(form))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise field_error(name, f"{name} cannot be read: {error!r}") from error
        if config is not None:
            with self._lock:
                self._try(config, name)
        return config

    def _try(self, config: Any, name: str) -> None:
        if self._trial is None:
            self._trial = self._build_trial()
        started = time.monotonic()
        try:
            self._trial(config)
        except MemoryError as error:
            raise field_error(name, f"{name} is too complex") from error
        except RuntimeError as error:
            reason = " ".join(PLACE.sub("", str(error)).split())
            raise field_error(name, f"{name}: {reason[:MAX_REASON_LENGTH].rstrip('.')}") from error
        if time.monotonic() - started > MAX_SECONDS:
            raise field_error(name, f"{name} is too complex: it takes more than {MAX_SECONDS:g} s")


def build_format(library: Any, form: dict[str, Any]) -> Any:
    """Return the `StructuredOutputConfig` of a format, or None for any text.

    Raises AttributeError, KeyError, TypeError or ValueError for a format that the library does not know.
    """
    match kind := form["type"]:
        case "text":
            return None
        case "json_object":
            options = {"json_schema": '{"type": "object"}'}
        case "json_schema":
            options = {"json_schema": json.dumps(form["json_schema"].get("schema", {"type": "object"}))}
        case "regex" | "grammar":
            options = {kind: str(form[kind])}
        case "choice":
            choices = (json.dumps(str(each), ensure_ascii=False) for each in form["choice"])
            options = {"grammar": f"root ::= {' | '.join(choices)}"}
        case "calls":
            options = {"structural_tags_config": json.dumps(build_tag(form["calls"]))}
        case _:
            raise ValueError(f'its type "{kind}" is unknown')
    return library.StructuredOutputConfig(**options)


def build_trial(library: Any, tensors: Any, tokenizer: Any, vocabulary: int) -> Callable[[Any], None]:
    """Return a function that compiles a format and generates a token, with a network whose logits are all 0.

    The function raises RuntimeError for a format that cannot be compiled. The pipeline of the model would fail
    in a step, with all its streams.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "trial.xml")
        tensors.save_model(_build_network(tensors, vocabulary), path)
        network, weights = path.read_text(), np.fromfile(path.with_suffix(".bin"), np.uint8)
    pipeline = library.LLMPipeline(
        network, tensors.Tensor(weights), tokenizer, "CPU", ATTENTION_BACKEND="SDPA"
    )
    prompt = tensors.Tensor(np.zeros((1, 1), np.int64))

    def run(config: Any) -> None:
        generation = library.GenerationConfig()
        generation.max_new_tokens, generation.structured_output_config = 1, config
        pipeline.generate(prompt, generation)

    return run


def _build_network(tensors: Any, vocabulary: int) -> Any:
    operations = tensors.opset13
    inputs = []
    for name, shape, kind in (
        ("input_ids", [-1, -1], np.int64),
        ("attention_mask", [-1, -1], np.int64),
        ("beam_idx", [-1], np.int32),
    ):
        inputs.append(operations.parameter(shape, kind, name=name))
        inputs[-1].output(0).set_names({name})
    size = operations.constant(np.array([vocabulary], np.int64))
    shape = operations.concat([operations.shape_of(inputs[0]), size], 0)
    logits = operations.result(operations.broadcast(operations.constant(np.float32(0)), shape))
    logits.output(0).set_names({"logits"})
    return tensors.Model([logits], inputs, "trial")
