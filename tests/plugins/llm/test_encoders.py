"""Texts that are encoded in chunks of similar length."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferstream import RequestContext
from inferstream.errors import Cancelled
from inferstream.plugins.llm.encoders import Encoder, EncoderFiles, EncoderSettings, SentenceEncoder
from inferstream.plugins.llm.sentences import Sentences


class Vectors:
    """The vectors of one run, as a tensor of torch has them."""

    def __init__(self, rows: list[list[float]]) -> None:
        self._rows = np.array(rows, np.float32)

    def float(self) -> "Vectors":
        return self

    def cpu(self) -> "Vectors":
        return self

    def numpy(self) -> Any:
        return self._rows


class Lengths(Encoder):
    """Encodes a text as its length, and remembers its runs."""

    def __init__(self, batch_size: int = 2, **sentences: Any) -> None:
        torch = SimpleNamespace(
            cuda=SimpleNamespace(is_available=lambda: False),
            is_tensor=lambda value: False,
            inference_mode=nullcontext,
        )
        super().__init__(torch, EncoderSettings(batch_size=batch_size), Sentences(**sentences))
        self.runs: list[list[str]] = []

    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        self.runs.append(texts)
        return {"texts": texts, "attention_mask": np.array([len(text) for text in texts])}

    def compute_vectors(self, features: dict[str, Any]) -> Any:
        return Vectors([[len(text), 1.0] for text in features["texts"]])


@pytest.fixture
def encoder() -> Lengths:
    made = Lengths()
    made.warm()
    made.runs.clear()
    return made


def test_vectors_keep_order_of_texts(encoder: Lengths) -> None:
    vectors, tokens = encoder.encode(["bbb", "a", "dddddd", "cc"], "", RequestContext())
    assert vectors[:, 0].tolist() == [3, 1, 6, 2]
    assert tokens == 12
    assert encoder.runs == [["dddddd", "bbb"], ["cc", "a"]]


def test_prompt_precedes_every_text(encoder: Lengths) -> None:
    encoder.encode(["a", "bb"], "> ", RequestContext())
    assert encoder.runs == [["> bb", "> a"]]


def test_empty_input_has_vectors_of_correct_length(encoder: Lengths) -> None:
    vectors, tokens = encoder.encode([], "", RequestContext())
    assert (vectors.shape, tokens) == ((0, 2), 0)


def test_cancelled_request_encodes_no_more_chunks(encoder: Lengths) -> None:
    context = RequestContext()
    context.cancelled = True
    with pytest.raises(Cancelled):
        encoder.encode(["a"], "", context)
    assert encoder.runs == []


def test_default_prompt_is_selected_by_name() -> None:
    prompts = {"query": "find: "}
    assert Lengths(prompts=prompts, default_prompt="query").default_prompt == "find: "
    assert Lengths(prompts=prompts).default_prompt == ""


@pytest.mark.parametrize(
    ("fixed", "template"),
    [({}, "{{ x }}"), ({"trust_remote_code": False}, None)],
    ids=["trusted", "untrusted"],
)
def test_sentence_transformers_renders_no_template_without_trust(
    fixed: Mapping[str, Any], template: str | None
) -> None:
    reader = SimpleNamespace(chat_template="{{ x }}")
    model = SimpleNamespace(modules=lambda: [SimpleNamespace(processor=reader)], tokenize=None)
    model.to = lambda **_: SimpleNamespace(eval=lambda: model)
    package = SimpleNamespace(SentenceTransformer=lambda *_, **__: model)
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), float32=None)
    SentenceEncoder(torch, package, EncoderFiles(Path("m"), EncoderSettings(), Sentences(), fixed))
    assert reader.chat_template == template
