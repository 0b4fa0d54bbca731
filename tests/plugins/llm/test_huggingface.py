"""Each pipeline answers what transformers answers, in the tensors of MLServer's runtime."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import transformers

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.ext.runtimes import TORCH_LOADING
from inferstream.plugins.llm.huggingface import HuggingFaceRuntime
from inferstream.testing import run
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput
from tests.artefacts import transformer_models

pytestmark = pytest.mark.filterwarnings("default")

KNOWN = transformers.pipelines.get_supported_tasks()

CLASSES = {
    "id2label": {0: "contradiction", 1: "entailment"},
    "label2id": {"contradiction": 0, "entailment": 1},
}

CLASSIFIER = "BertForSequenceClassification"


def settings_of(task: str, uri: Path, top: dict[str, Any] | None = None, **extra: Any) -> ModelSettings:
    parameters = {"uri": str(uri), "extra": {"task": task, **extra}}
    return ModelSettings(name="m", implementation=HuggingFaceRuntime, parameters=parameters, **(top or {}))


def given(name: str, *data: Any, datatype: str = "BYTES", content_type: str | None = None) -> RequestInput:
    parameters = Parameters(content_type=content_type) if content_type else None
    shape = [len(data)]
    return RequestInput(name=name, shape=shape, datatype=datatype, data=list(data), parameters=parameters)


def raw(name: str, value: Any) -> RequestInput:
    datatype = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES"}[type(value)]
    return given(name, value, datatype=datatype, content_type="raw")


def results(response: InferenceResponse) -> list[Any]:
    (output,) = response.outputs
    assert (output.name, output.datatype, output.shape) == ("output", "BYTES", [len(output.data.flat()), 1])
    assert output.parameters.content_type == "hg_jsonlist"
    return [json.loads(element) for element in output.data.flat()]


async def answered(served: ModelSettings, *inputs: RequestInput) -> list[Any]:
    async with run(served) as models:
        return results(await models.infer("m", InferenceRequest(inputs=list(inputs))))


def theirs(task: str, folder: Path, *arguments: Any, **options: Any) -> Any:
    found = transformers.pipeline(task, model=str(folder))(*arguments, **options)
    # As JSON has them.
    return json.loads(
        json.dumps(found if isinstance(found, list) else [found], default=lambda value: value.item())
    )


CASES = {
    "one text": ("text-classification", CLASSIFIER, [given("args", "the sky")], (["the sky"], {})),
    "several texts": (
        "text-classification",
        CLASSIFIER,
        [given("array_inputs", "the sky", "hello")],
        ([["the sky", "hello"]], {}),
    ),
    "an option": (
        "text-classification",
        CLASSIFIER,
        [given("args", "the sky"), raw("top_k", 2)],
        (["the sky"], {"top_k": 2}),
    ),
    "pairs": (
        "text-classification",
        CLASSIFIER,
        [given("array_inputs", '{"text": "a", "text_pair": "hello"}', content_type="hg_jsonlist")],
        ([[{"text": "a", "text_pair": "hello"}]], {}),
    ),
    "tokens": (
        "token-classification",
        "BertForTokenClassification",
        [given("args", "who are")],
        (["who are"], {}),
    ),
    "features": ("feature-extraction", "BertModel", [given("args", "the sky")], (["the sky"], {})),
    "mask": (
        "fill-mask",
        "BertForMaskedLM",
        [given("args", "the sky is [MASK]"), given("targets", "blue", "red")],
        (["the sky is [MASK]"], {"targets": ["blue", "red"]}),
    ),
    "question": (
        "question-answering",
        "BertForQuestionAnswering",
        [given("question", "who are you"), given("context", "hello i am seldon")],
        ([], {"question": ["who are you"], "context": ["hello i am seldon"]}),
    ),
    "labels": (
        "zero-shot-classification",
        CLASSIFIER,
        [given("sequences", "the sky is blue"), given("candidate_labels", "blue", "red")],
        ([], {"sequences": ["the sky is blue"], "candidate_labels": ["blue", "red"]}),
    ),
    "text": (
        "text-generation",
        "BertLMHeadModel",
        [given("text_inputs", "the sky"), raw("max_new_tokens", 4), raw("do_sample", False)],
        ([["the sky"]], {"max_new_tokens": 4, "do_sample": False}),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_pipeline_result_matches_transformers(tmp_path, case: str) -> None:
    task, kind, inputs, (arguments, options) = CASES[case]
    if task not in KNOWN:
        pytest.skip(f"transformers {transformers.__version__} has no {task}")
    more = {"is_decoder": True} if task == "text-generation" else CLASSES if kind == CLASSIFIER else {}
    folder = transformer_models.saved(tmp_path, kind, **more)
    assert await answered(settings_of(task, folder), *inputs) == theirs(task, folder, *arguments, **options)


async def test_pretrained_model_can_be_a_folder(tmp_path) -> None:
    folder = transformer_models.saved(tmp_path / "model", CLASSIFIER)
    served = settings_of(
        "text-classification", tmp_path, pretrained_model=str(folder), device=-1, framework="pt"
    )
    assert len(await answered(served, given("args", "hello"))) == 1


async def test_several_args_are_several_texts(tmp_path) -> None:
    served = settings_of("text-classification", transformer_models.saved(tmp_path, CLASSIFIER))
    assert len(await answered(served, given("args", "hello", "red"))) == 2


async def test_batched_requests_keep_rows_and_options(tmp_path) -> None:
    folder = transformer_models.saved(tmp_path, CLASSIFIER)
    top = {"max_batch_size": 8, "max_batch_time": 0.05, "max_concurrency": 1}
    texts = ["the sky is blue", "hello", "who are you", "red"] * 3
    seen = []
    async with run(settings_of("text-classification", folder, top)) as models:
        requests = [
            InferenceRequest(inputs=[given("args", text), raw("top_k", 1 + number % 2)])
            for number, text in enumerate(texts)
        ]
        seen = await asyncio.gather(*(models.infer("m", request) for request in requests))
    for number, (text, response) in enumerate(zip(texts, seen, strict=True)):
        (found,) = results(response)
        found = found if isinstance(found, list) else [found]
        expected = theirs("text-classification", folder, text, top_k=1 + number % 2)
        assert [each["label"] for each in found] == [each["label"] for each in expected]
        assert [each["score"] for each in found] == pytest.approx(
            [each["score"] for each in expected], abs=1e-5
        )


async def test_list_option_is_refused_in_batch(tmp_path) -> None:
    folder = transformer_models.saved(tmp_path, "BertForMaskedLM")
    top = {"max_batch_size": 8, "max_batch_time": 0.05}
    with pytest.raises(InvalidRequest, match=r'^input "targets": an option of a model that batches has'):
        inputs = given("args", "the [MASK]"), given("targets", "blue")
        await answered(settings_of("fill-mask", folder, top), *inputs)


async def test_similarity_is_cosine_of_vectors(tmp_path) -> None:
    folder = transformer_models.sentences(tmp_path, normalize=False)
    sentences = given("sentences", "the sky is blue", "who are you")
    served = settings_of("sentence-similarity", folder)
    same, other = await answered(served, given("source_sentence", "the sky is blue"), sentences)
    assert same == pytest.approx(1, abs=1e-5)
    assert -1 <= other < same
    with pytest.raises(InvalidRequest, match='input "source_sentence": needs one text, got 2'):
        await answered(served, given("source_sentence", "red", "blue"), sentences)


async def test_metadata_matches_mlserver_runtime(tmp_path) -> None:
    model = HuggingFaceRuntime(
        settings_of("text-classification", transformer_models.saved(tmp_path, CLASSIFIER))
    )
    await model.load()
    assert [(each.name, each.datatype, each.shape) for each in model.inputs] == [("args", "BYTES", [-1])]
    assert [(each.name, each.parameters.content_type) for each in model.outputs] == [("outputs", "hg_json")]


@pytest.mark.parametrize(
    ("task", "kind", "inputs", "reason"),
    [
        ("fill-mask", "BertForMaskedLM", [given("args", "the sky")], r'input "args": No mask_token'),
        ("text-classification", CLASSIFIER, [], "a request without inputs: "),
        ("zero-shot-classification", CLASSIFIER, [given("sequences", "a")], 'input "sequences": '),
        (
            "text-classification",
            CLASSIFIER,
            [given("args", "{", content_type="hg_json")],
            'input "args": not "hg_json"',
        ),
    ],
)
async def test_pipeline_refusal_is_client_error(tmp_path, task, kind, inputs, reason) -> None:
    with pytest.raises(InvalidRequest, match=f"^{reason}"):
        await answered(settings_of(task, transformer_models.saved(tmp_path, kind)), *inputs)


@pytest.mark.parametrize(
    ("task", "more", "reason"),
    [
        ("", {}, 'parameters.extra holds no "task"'),
        ("no-such-task", {}, 'has no task "no-such-task", but '),
        ("text-classification", {"batch_size": 0}, '"batch_size" in parameters.extra: '),
        ("text-classification", {}, r"cannot read .*; the server's log says why"),
    ],
)
async def test_invalid_settings_are_named(tmp_path, task: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelLoadFailed, match=reason):
        await HuggingFaceRuntime(settings_of(task, tmp_path, **more)).load()


async def test_zero_shot_classification_cannot_be_batched(tmp_path) -> None:
    served = settings_of("zero-shot-classification", tmp_path, {"max_batch_size": 8, "max_batch_time": 1})
    with pytest.raises(ModelLoadFailed, match="max_batch_time has to be 0"):
        await HuggingFaceRuntime(served).load()


async def test_transformers_loads_one_model_at_a_time(tmp_path, monkeypatch) -> None:
    """Of models that version 5 loads at once, some keep weights that were never read."""
    library = sys.modules["transformers"]  # which another test may have imported anew
    pipeline, held = library.pipeline, []

    def watched(*arguments: Any, **options: Any) -> Any:
        held.append(TORCH_LOADING.locked())
        return pipeline(*arguments, **options)

    monkeypatch.setattr(library, "pipeline", watched)
    folder = transformer_models.saved(tmp_path, CLASSIFIER)
    await HuggingFaceRuntime(settings_of("text-classification", folder)).load()
    assert held == [True]
    assert not TORCH_LOADING.locked()


async def test_untrusted_pipeline_has_no_chat_template(tmp_path: Path) -> None:
    folder = transformer_models.saved(tmp_path / "model", "BertLMHeadModel", is_decoder=True)
    (folder / "chat_template.jinja").write_text(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    )
    (tmp_path / ".untrusted").write_text("hf://org/model")
    chat = given("array_inputs", json.dumps({"role": "user", "content": "hello"}), content_type="hg_jsonlist")
    async with run(settings_of("text-generation", folder)) as models:
        with pytest.raises(InvalidRequest, match="chat_template"):
            await asyncio.wait_for(models.infer("m", InferenceRequest(inputs=[chat])), 60)
        answered = await models.infer(
            "m", InferenceRequest(inputs=[given("args", "hello"), raw("max_new_tokens", 3)])
        )
        assert results(answered)
