"""A stand-in for the network: its tokens are bytes, and it keeps the tokens of each sequence."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from inferstream import ModelSettings
from inferstream.plugins.llm.llamacpp import LlamaCppModel
from inferstream.plugins.llm.llamacpp.network import Logits, SequenceTokens
from inferstream.plugins.llm.spelling import Speller
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput

END = 0
TEMPLATE = "tokenizer.chat_template"
CHAT = """{%- for m in messages %}{% if m.role == 'nobody' %}{{ raise_exception('unknown role nobody') }}{% endif %}
{%- generation %}{{ m.content }}{% endgeneration %}{{ '' if loop.last else '|' }}{% endfor %}
{%- for tool in tools or [] %}|{{ tool.name }}{% endfor %}"""


class Vocabulary(Speller):
    """The bytes."""

    handle = None
    size = 256
    ends = frozenset([END])
    pieces = [bytes([token]) for token in range(256)]
    special = frozenset([END])
    special_texts = {"bos_token": "", "eos_token": ""}

    def name(self, token: int) -> str:
        return f"<{token}>"

    def read_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def tokenize(self, text: str, starts: bool = False) -> list[int]:
        return list(text.encode())


class Network:
    """Says its prompt again, one byte a token, and then ends.

    The cache has room for `cells` tokens. Sequences that share a prefix share its cells.
    """

    made: "list[Network]" = []
    template: str | None = CHAT
    has_prefixes = True
    trained_length = 2048
    vocabulary = Vocabulary()

    def __init__(self, library: Any, path: Path, threads: int, gpu_layers: int) -> None:
        self.path, self.options = path, {"threads": threads, "gpu_layers": gpu_layers}
        self.cells = 10**9
        self.sequences: dict[int, list[tuple[int, object]]] = {}
        """Tokens with the identity of their cell."""
        self.prompts: dict[int, int] = {}
        """Length of the prompt of each sequence."""
        self.batches: list[list[SequenceTokens]] = []
        self.closed = False
        Network.made.append(self)

    def open(self, cells: int, sequences: int, batch: int) -> None:
        self.cells = cells
        self.options |= {"cells": cells, "sequences": sequences, "batch": batch}

    def metadata(self, key: str) -> str | None:
        return {TEMPLATE: self.template, "general.architecture": "echo"}.get(key)

    def decode(self, entries: Sequence[SequenceTokens]) -> Logits | None:
        used = {id(cell) for sequence in self.sequences.values() for _, cell in sequence}
        if len(used) + sum(len(entry.tokens) for entry in entries) > self.cells:
            return None
        self.batches.append(list(entries))
        rows = []
        for sequence, position, tokens, outputs in entries:
            held = self.sequences.setdefault(sequence, [])
            assert len(held) == position, "a position is left out or written twice"
            held += [(token, object()) for token in tokens]
            if outputs:
                self.prompts.setdefault(sequence, len(held))
            texts = [token for token, _ in held]
            rows += [
                self.logits(texts[:end], self.prompts[sequence])
                for end in range(len(held) - outputs + 1, len(held) + 1)
            ]
        return np.array(rows, np.float32)

    def logits(self, tokens: list[int], prompt: int) -> Any:
        logits = np.full(256, -10.0)
        logits[self.next_token(tokens, prompt)] = 10
        return logits

    def next_token(self, tokens: list[int], prompt: int) -> int:
        return [*tokens[:prompt], END][min(len(tokens) - prompt, prompt)]

    def remove(self, sequence: int) -> None:
        for each in [*self.sequences] if sequence < 0 else [sequence]:
            self.sequences.pop(each, None)
            self.prompts.pop(each, None)

    def copy(self, source: int, target: int, tokens: int) -> None:
        assert target not in self.sequences
        self.sequences[target] = self.sequences[source][:tokens]

    def close(self) -> None:
        self.closed = True


class Story(Network):
    """Writes text that depends on all tokens so far, and never ends."""

    def next_token(self, tokens: list[int], prompt: int) -> int:
        return 97 + sum(token * (index + 1) for index, token in enumerate(tokens)) % 26


LIBRARY = SimpleNamespace(
    __version__="0",
    llama_chat_format=SimpleNamespace(
        format_chatml=lambda messages: SimpleNamespace(prompt="|".join(each["content"] for each in messages))
    ),
    llama_max_parallel_sequences=lambda: 256,
)


def settings_of(uri: Path, top: dict[str, Any] | None = None, **extra: Any) -> ModelSettings:
    parameters = {"uri": str(uri), "extra": extra}
    return ModelSettings(name="m", implementation=LlamaCppModel, parameters=parameters, **(top or {}))


def asked(inputs: dict[str, Any], **parameters: Any) -> InferenceRequest:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in inputs.items()}
    tensors = [
        RequestInput(name=name, shape=[1], datatype="BYTES", data=[text]) for name, text in texts.items()
    ]
    return InferenceRequest(inputs=tensors, parameters=Parameters(**parameters))


def text_of(responses: list[InferenceResponse]) -> str:
    pieces = [each.outputs[0].data.flat()[0] for each in responses]
    return "".join(each if isinstance(each, str) else each.decode() for each in pieces)


def parameters_of(response: InferenceResponse) -> dict[str, Any]:
    return dict(response.parameters.items()) if response.parameters is not None else {}
