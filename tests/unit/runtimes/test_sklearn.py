"""Estimators of scikit-learn."""

from inferstream.codecs import PandasCodec, StringRequestCodec
from tests.unit.runtimes import models
from tests.unit.runtimes.fitted import arrays, asked, fitted


async def test_a_vectorizer_answers_dense_arrays_of_texts(tmp_path) -> None:
    model = await fitted(models.vectorizer(), tmp_path, predict_fn="transform")
    request = asked(["good day", "night"], codec=StringRequestCodec)
    assert arrays(model.predict(request))["transform"].shape == (2, 4)


async def test_texts_in_texts_out(tmp_path) -> None:
    model = await fitted(models.text_classifier(), tmp_path)
    response = model.predict(asked(["good day", "bad night"], codec=StringRequestCodec))
    assert response.outputs[0].data.flat() == [b"fine", b"sad"]


async def test_a_data_frame_goes_into_a_pipeline(tmp_path) -> None:
    model = await fitted(models.frame_pipeline(), tmp_path)
    request = asked(models.people(), "predict", "predict_proba", codec=PandasCodec)
    assert arrays(model.predict(request))["predict"][:, 0].tolist() == [0, 0, 1, 1]


async def test_a_data_frame_is_answered_as_its_columns(tmp_path) -> None:
    model = await fitted(models.frame_scaler(), tmp_path)
    frame = models.people()[["age"]].assign(height=160.0)
    response = model.predict(asked(frame, "transform", codec=PandasCodec))
    assert [output.name for output in response.outputs] == ["age", "height"]
    assert PandasCodec.decode_response(response).equals(models.frame_scaler().transform(frame))
