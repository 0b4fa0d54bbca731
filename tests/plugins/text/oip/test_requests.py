"""Which requests are of the protocol's text generation, and the errors of these."""

import pytest

from inferstream import ModelSettings
from inferstream.errors import (
    DeadlineExceeded,
    InferenceFailed,
    InferstreamError,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    Overloaded,
    Unsupported,
    WorkerLost,
)
from inferstream.ext.http import error_headers, status_of
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.oip.requests import build_text_generation, translate_error
from inferstream.plugins.text.settings import TextSettings
from inferstream.types import MetadataTensor


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequest("wrong"), 422),
        (Unsupported("no prompt"), 422),
        (InferenceFailed("failed"), 424),
        (Overloaded("full", 7), 429),
        (ModelError("from the model", 418), 418),
        (ModelNotFound("m"), 404),
        (DeadlineExceeded(), 504),
        (WorkerLost("lost"), 503),
    ],
)
def test_errors_have_the_status_of_the_specification(error: InferstreamError, status: int) -> None:
    translated = translate_error(error)
    assert status_of(translated).http == status
    assert (translated.message, translated.code) == (error.message, error.code)
    assert error_headers(translated) == error_headers(error)


def settings(**text: object) -> ModelSettings:
    return ModelSettings(name="m", implementation="model.Model", **text)


@pytest.mark.parametrize(
    ("datatypes", "exists"), [((), True), (("BYTES",), True), (("FP32", "BYTES"), True), (("FP32",), False)]
)
def test_models_without_text_inputs_have_no_format(datatypes: tuple[str, ...], exists: bool) -> None:
    inputs = tuple(MetadataTensor(name=kind, datatype=kind, shape=[1]) for kind in datatypes)
    assert (build_text_generation(Signature(inputs=inputs), settings()) is not None) == exists


def test_hidden_model_has_no_format() -> None:
    hidden = settings(openai=False)
    assert hidden.section(TextSettings).openai is False
    assert build_text_generation(Signature(inputs=()), hidden) is None
