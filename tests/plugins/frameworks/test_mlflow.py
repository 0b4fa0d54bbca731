"""MLflow's models, saved by MLflow itself."""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, of type hints
    import mlflow.pyfunc
    import mlflow.sklearn

import pandas as pd
from mlflow.models import ModelSignature, infer_signature
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec
from sklearn.linear_model import LogisticRegression

from inferstream import ModelSettings
from inferstream.codecs import PandasCodec, StringCodec
from inferstream.errors import InvalidRequest, InvalidSettings, ModelLoadFailed
from inferstream.ext.runtimes import FolderRepository, TrustedRuntimes
from inferstream.plugins.frameworks.mlflow import MLflowModel
from inferstream.types import InferenceRequest, Parameters, RequestInput
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, loaded

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:mlflow", "ignore:.*:FutureWarning:mlflow")

FLOWERS, SPECIES = models.FLOWERS, models.SPECIES
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


class Echo(mlflow.pyfunc.PythonModel):
    """Returns what it gets, or what the parameter `form` asks for."""

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        form = (params or {}).get("form", "")
        if form == "chat":
            return [{"role": "assistant", "n": 1}]
        if form == "types":
            return [str(type(each).__name__) for each in model_input.iloc[0]]
        if form == "params":
            return [repr(sorted((params or {}).items()))]
        if form == "secret":
            raise mlflow.exceptions.MlflowException("the secret of the input")
        if form == "mine":
            raise mlflow.exceptions.MlflowException.invalid_parameter_value("an empty text")
        if form == "not found":
            raise mlflow.exceptions.MlflowException("none", error_code=RESOURCE_DOES_NOT_EXIST)
        if form == "broken":
            raise KeyError("the reason")
        if form == "object":
            return [object()]
        return model_input

    def predict_stream(self, context: Any, model_input: Any, params: Any = None) -> Iterator[Any]:
        if params:
            self.predict(context, model_input, params)
        yield from ["one", "two"]


PARAMS = ParamSchema(
    [
        ParamSpec("form", DataType.string, ""),
        ParamSpec("top", DataType.long, 1),
        ParamSpec("stop", DataType.string, ["a"], (-1,)),
    ]
)


PINNED = ["mlflow"]
"""Requirements of a model. Without them, MLflow starts a process that finds them."""


def echo(folder: Path, inputs: Schema | None, *, streamable: bool = False) -> None:
    signature = None if inputs is None else ModelSignature(inputs=inputs, params=PARAMS)
    mlflow.pyfunc.save_model(
        str(folder), python_model=Echo(), signature=signature, streamable=streamable, pip_requirements=PINNED
    )


def classifier(folder: Path) -> Any:
    frame = pd.DataFrame(FLOWERS, columns=NAMES)
    model = LogisticRegression(max_iter=500).fit(frame, SPECIES)
    signature = infer_signature(frame, model.predict(frame))
    mlflow.sklearn.save_model(
        model,
        str(folder),
        signature=signature,
        serialization_format="cloudpickle",
        pip_requirements=PINNED,
    )
    return model


async def opened(folder: Path) -> MLflowModel:
    return await loaded(MLflowModel, folder)  # type: ignore[arg-type, return-value]


def columns(datatype: str = "FP64", names: list[str] = NAMES) -> InferenceRequest:
    values = np.array(FLOWERS, dtype={"FP64": float, "FP32": np.float32, "INT64": np.int64}[datatype])
    return InferenceRequest(
        inputs=[
            RequestInput(name=name, datatype=datatype, shape=[len(values)], data=values[:, place].tolist())
            for place, name in enumerate(names)
        ]
    )


def one(name: str, datatype: str, *values: Any, **parameters: Any) -> InferenceRequest:
    tensor = RequestInput(name=name, datatype=datatype, shape=[len(values)], data=[*values])
    return InferenceRequest(inputs=[tensor], parameters=Parameters(**parameters))


async def test_named_columns_rows_and_frames_are_equivalent(tmp_path: Path) -> None:
    own = classifier(tmp_path)
    model = await opened(tmp_path)
    frame = pd.DataFrame(FLOWERS, columns=NAMES)
    wanted = own.predict(frame).tolist()
    mixed = frame[NAMES[::-1]].astype({NAMES[0]: "float32"})
    for request in (
        columns("FP64"),
        columns("FP32"),
        columns("INT64"),
        asked(FLOWERS),
        asked(FLOWERS.astype(np.float32)),
        PandasCodec.encode_request(mixed),
    ):
        found = arrays(model.predict(request))["output-0"][:, 0].tolist()
        rounded = frame.astype(int) if request.inputs[0].datatype == "INT64" else frame
        assert found == (wanted if rounded is frame else own.predict(rounded.astype(float)).tolist())
    metadata = await model.metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [
        (name, "FP64", [-1]) for name in NAMES
    ]
    assert [(each.name, each.datatype, each.shape) for each in metadata.outputs] == [
        ("output-0", "INT64", [-1])
    ]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (
            columns("FP64", NAMES[:3]),
            'column "petal width" is missing; the model has sepal length, sepal width, ',
        ),
        (
            columns("FP64", [*NAMES[:3], "weight"]),
            'column "weight" is not one of the model\'s: sepal length, ',
        ),
        (asked(FLOWERS[:, :3]), r"takes shape \[-1, 4\], got \[150, 3\]; or the columns sepal length, "),
        (
            PandasCodec.encode_request(pd.DataFrame(FLOWERS[:, :3], columns=NAMES[:3])),
            'column "petal width" is missing',
        ),
        (
            PandasCodec.encode_request(pd.DataFrame([["a", 1.0, 1.0, 1.0]], columns=NAMES)),
            'column "sepal length": the model takes FP64, got BYTES',
        ),
    ],
)
async def test_invalid_columns_are_named(tmp_path: Path, request_: InferenceRequest, error: str) -> None:
    classifier(tmp_path)
    model = await opened(tmp_path)
    with pytest.raises(InvalidRequest, match=error):
        model.predict(request_)


async def test_value_refused_by_framework_is_client_error(tmp_path: Path) -> None:
    classifier(tmp_path)
    model = await opened(tmp_path)
    with pytest.raises(InvalidRequest, match="contains NaN"):
        model.predict(asked(np.full((1, 4), np.nan)))


async def test_numbers_are_never_narrowed(tmp_path: Path) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.integer, "n"), ColSpec(DataType.float, "x", required=False)]))
    model = await opened(tmp_path)
    found = arrays(model.predict(one("n", "INT16", 3)))
    assert (found["n"].dtype, found["n"].tolist()) == (np.int32, [[3]])
    with pytest.raises(InvalidRequest, match='column "n": the model takes INT32, got INT64'):
        model.predict(one("n", "INT64", 3))
    both = one("n", "INT32", 3)
    both.inputs.append(RequestInput(name="x", datatype="FP64", shape=[1], data=[0.5]))
    with pytest.raises(InvalidRequest, match='column "x": the model takes FP32, got FP64'):
        model.predict(both)


async def test_strings_dates_bytes_and_json_are_columns(tmp_path: Path) -> None:
    kinds = {
        "text": DataType.string,
        "day": DataType.datetime,
        "blob": DataType.binary,
        "flag": DataType.boolean,
    }
    from mlflow.types.schema import Array

    specs = [ColSpec(kind, name) for name, kind in kinds.items()]
    echo(tmp_path, Schema([*specs, ColSpec(Array(DataType.long), "list")]))
    model = await opened(tmp_path)
    request = InferenceRequest(
        inputs=[
            RequestInput(name="text", datatype="BYTES", shape=[1], data=["a"]),
            RequestInput(name="day", datatype="BYTES", shape=[1], data=["2026-11-26T10:00:00"]),
            RequestInput(name="blob", datatype="BYTES", shape=[1], data=["AAE="]),
            RequestInput(name="flag", datatype="BOOL", shape=[1], data=[True]),
            RequestInput(name="list", datatype="BYTES", shape=[1], data=["[1, 2]"]),
        ],
        parameters=Parameters(form="types"),
    )
    found = StringCodec.decode_output(model.predict(request).outputs[0])
    assert found[:4] == ["str", "Timestamp", "bytes", "bool"]
    assert found[4] in ("list", "ndarray")  # by MLflow's version
    for name, value, form in (
        ("day", "yesterday", "dates in the form of ISO 8601"),
        ("blob", "%", "base64"),
        ("list", "[1", "JSON"),
    ):
        wrong = request.model_copy(deep=True)
        next(each for each in wrong.inputs if each.name == name).data = [value]
        with pytest.raises(InvalidRequest, match=f'column "{name}": the model takes {form}$'):
            model.predict(wrong)
    wrong = one("text", "INT64", 1)
    wrong.inputs += request.inputs[1:]
    with pytest.raises(InvalidRequest, match='column "text": the model takes BYTES, got INT64'):
        model.predict(wrong)


async def test_named_tensors(tmp_path: Path) -> None:
    specs = [TensorSpec(np.dtype("float32"), (-1, 2), "x"), TensorSpec(np.dtype("int64"), (-1,), "y")]
    echo(tmp_path, Schema(specs))
    model = await opened(tmp_path)
    request = InferenceRequest(
        inputs=[
            RequestInput(name="x", datatype="FP32", shape=[1, 2], data=[1, 2]),
            RequestInput(name="y", datatype="INT64", shape=[1], data=[3]),
        ]
    )
    found = arrays(model.predict(request))
    assert (found["x"].tolist(), found["y"].tolist()) == ([[1, 2]], [[3]])
    with pytest.raises(InvalidRequest, match='input "x": the model takes FP32, got FP64'):
        request.inputs[0].datatype = "FP64"
        model.predict(request)
    with pytest.raises(InvalidRequest, match='input "y" is missing'):
        model.predict(InferenceRequest(inputs=request.inputs[:1]))


async def test_unnamed_tensor(tmp_path: Path) -> None:
    echo(tmp_path, Schema([TensorSpec(np.dtype("float64"), (-1, 2))]))
    model = await opened(tmp_path)
    assert arrays(model.predict(asked(np.ones((3, 2)))))["output-0"].tolist() == [[1, 1]] * 3
    assert [each.name for each in (await model.metadata()).inputs] == ["input-0"]
    with pytest.raises(InvalidRequest, match=r"takes shape \[-1, 2\], got \[3, 4\]"):
        model.predict(asked(np.ones((3, 4))))


async def test_unnamed_tensor_accepts_data_frame(tmp_path: Path) -> None:
    echo(tmp_path, Schema([TensorSpec(np.dtype("float64"), (-1, 2))]))
    model = await opened(tmp_path)
    frame = asked(pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0]}), codec=PandasCodec)
    assert arrays(model.predict(frame))["output-0"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    for wrong, said in (
        ({"a": ["x"], "b": ["y"]}, "takes FP64, got BYTES"),
        ({"a": [1.0], "b": [2.0], "c": [3.0]}, r"takes shape \[-1, 2\], got \[1, 3\]"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            model.predict(asked(pd.DataFrame(wrong), codec=PandasCodec))


async def test_request_without_signature_is_passed_unchanged(tmp_path: Path) -> None:
    """As at MLflow's own server: a data frame is one, and several inputs are arrays by name."""
    echo(tmp_path, None)
    model = await opened(tmp_path)
    frame = asked(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), codec=PandasCodec)
    assert [output.name for output in model.predict(frame).outputs] == ["a", "b"]
    assert model.predict(frame).parameters.content_type == "pd"
    frame.parameters = None
    for tensor in frame.inputs:
        tensor.parameters = None
    found = arrays(model.predict(frame))
    assert {name: array.ravel().tolist() for name, array in found.items()} == {"a": [1, 2], "b": [3, 4]}


async def test_request_without_signature_is_an_array(tmp_path: Path) -> None:
    echo(tmp_path, None)
    model = await opened(tmp_path)
    assert arrays(model.predict(asked(np.ones((2, 3)))))["output-0"].tolist() == [[1, 1, 1]] * 2
    assert (await model.metadata()).inputs == []


async def test_signature_parameters_reach_model(tmp_path: Path) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.string, "text")]))
    model = await opened(tmp_path)
    request = one("text", "BYTES", "a", form="params", top=3, stop=["x", "y"], priority=1)
    assert StringCodec.decode_output(model.predict(request).outputs[0]) == [
        "[('form', 'params'), ('stop', ['x', 'y']), ('top', 3)]"
    ]
    for given, error in (
        ({"top": "3"}, 'parameter "top": the model takes long, got a str'),
        ({"top": True}, 'parameter "top": the model takes long, got a bool'),
        ({"stop": "x"}, 'parameter "stop": the model takes a list of string, got a str'),
        ({"form": ["x"]}, 'parameter "form": the model takes string, got a list'),
        ({"from": "x"}, 'parameter "from" is not in the signature of the model, which has form, top, stop'),
    ):
        with pytest.raises(InvalidRequest, match=error):
            model.predict(one("text", "BYTES", "a", **given))
    chat = model.predict(one("text", "BYTES", "a", form="chat"))
    assert StringCodec.decode_output(chat.outputs[0]) == ['{"role":"assistant","n":1}']


async def test_mlflow_internal_error_is_not_client_error(tmp_path: Path) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.string, "text")]))
    model = await opened(tmp_path)
    with pytest.raises(mlflow.exceptions.MlflowException):
        model.predict(one("text", "BYTES", "a", form="secret"))


@pytest.mark.parametrize(
    "time",
    [
        *("2024-01-02T03:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000Z"),
        *("2024-01-02T05:04:05+02:00", "2024-01-01T22:04:05-05:00"),
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
async def test_zoned_times_become_utc(tmp_path: Path, time: str, rows: int) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.datetime, "day")]))
    model = await opened(tmp_path)
    times = [time, "2024-01-02T03:04:05"][:rows]
    request = InferenceRequest(inputs=[RequestInput(name="day", datatype="BYTES", shape=[rows], data=times)])
    frame = PandasCodec.decode_response(model.predict(request))
    assert [str(each)[:19].replace("T", " ") for each in frame["day"]] == ["2024-01-02 03:04:05"] * rows


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("form", "refused"), [("secret", False), ("mine", True), ("not found", True), ("text", True)]
)
async def test_mlflow_client_error_is_client_error(
    tmp_path: Path, form: str, refused: bool, streamed: bool
) -> None:
    if form == "text":
        schema, request = Schema([ColSpec(DataType.long, "n")]), one("n", "INT64", 1)
        request.inputs[0].name = "n"
    else:
        schema, request = Schema([ColSpec(DataType.string, "text")]), one("text", "BYTES", "a", form=form)
    echo(tmp_path, schema, streamable=streamed)
    model = await opened(tmp_path)
    if form == "text":

        def refuse(*_: Any, **__: Any) -> None:
            raise mlflow.exceptions.MlflowException.invalid_parameter_value("Failed to enforce schema")

        model._artefact = SimpleNamespace(
            predict=refuse, predict_stream=refuse, metadata=model._artefact.metadata
        )
    error: type[Exception] = InvalidRequest if refused else mlflow.exceptions.MlflowException
    with pytest.raises(error, match="input" if refused else "secret"):
        [*model.predict_stream(iter([request]))] if streamed else model.predict(request)


async def test_streaming_flavor_streams(tmp_path: Path) -> None:
    schema = Schema([ColSpec(DataType.string, "text")])
    for name, streamable, wanted in (("a", True, ["one", "two"]), ("b", False, ["x"])):
        echo(tmp_path / name, schema, streamable=streamable)
        model = await opened(tmp_path / name)
        responses = model.predict_stream(iter([one("text", "BYTES", "x")]))
        texts = [StringCodec.decode_output(each.outputs[0]) for each in responses]
        assert [text for each in texts for text in each] == wanted


async def test_mlserver_runtime_name_keeps_array_name(tmp_path: Path) -> None:
    echo(tmp_path, None)
    name = "mlserver_mlflow.MLflowRuntime"
    settings = ModelSettings(name="m", implementation=name, parameters={"uri": str(tmp_path)})
    model = settings.implementation(settings)
    assert await model.load()
    assert [*arrays(model.predict(asked(np.ones((2, 3)))))] == ["output-1"]


async def test_mlmodel_file_selects_runtime(tmp_path: Path) -> None:
    classifier(tmp_path)
    assert (tmp_path / "model.pkl").exists()
    [found] = await FolderRepository(tmp_path).list()
    assert found.implementation is MLflowModel
    assert found.parameters is not None
    assert found.parameters.uri == str(tmp_path / "MLmodel")


async def test_unreadable_folder_error_hides_path(tmp_path: Path) -> None:
    (tmp_path / "MLmodel").write_text("flavors: {}")
    with pytest.raises(
        ModelLoadFailed, match=r"MLflow [\d.]+ cannot read MLmodel; the server's log says why"
    ):
        await opened(tmp_path)


async def test_missing_framework_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier(tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "mlflow.sklearn")
    with pytest.raises(ModelLoadFailed, match="did not load"):
        await opened(tmp_path)


async def test_scoring_forms(tmp_path: Path) -> None:
    own = classifier(tmp_path)
    model = await opened(tmp_path)
    frame = pd.DataFrame(FLOWERS[::50], columns=NAMES)
    predictions = {"predictions": own.predict(frame).tolist()}
    for body, media_type in (
        ({"dataframe_split": frame.to_dict(orient="split")}, "application/json"),
        ({"dataframe_records": frame.to_dict(orient="records")}, "application/json; charset=UTF-8"),
        ({"inputs": frame.to_dict(orient="list")}, "application/json"),
        ({"instances": frame.to_dict(orient="records")}, "application/json"),
        ({"instances": frame.to_dict(orient="records"), "params": {}}, "application/json"),
        (frame.to_csv(index=False), "text/csv"),
    ):
        text = body if isinstance(body, str) else json.dumps(body)
        status, response_type, answer = model.score_body(text.encode(), media_type)
        assert (status, response_type, json.loads(answer)) == (200, "application/json", predictions)


@pytest.mark.parametrize(
    ("body", "media_type", "status", "reason"),
    [
        (b"{", "application/json", 400, "valid JSON"),
        (b'{"a": 1}', "application/json", 400, "exactly one of the input fields"),
        (b'{"inputs": {"other": ["a"]}}', "application/json", 400, "Failed to enforce schema"),
        (
            b'{"inputs": {"text": ["a"]}, "params": {"top": "x"}}',
            "application/json",
            400,
            "DataType.long",
        ),
        (b"", "text/csv", 400, "Failed to parse input as a Pandas DataFrame"),
        (b"\xff", "text/csv", 400, ""),
        (b"a", "application/json; charset=latin-1", 415, "only supports UTF-8"),
        (b"a", "application/xml", 415, "only supports the following content types"),
    ],
)
async def test_scoring_error_is_mlflow_error(
    tmp_path: Path, body: bytes, media_type: str, status: int, reason: str
) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.string, "text")]))
    model = await opened(tmp_path)
    found, response_type, answer = model.score_body(body, media_type)
    assert found == status
    assert reason in answer
    if status == 415:
        assert response_type == "text/plain"
    else:
        assert response_type == "application/json"
        assert json.loads(answer).keys() == {"error_code", "message"}


async def test_scoring_passes_params_and_hides_model_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.string, "text")]))
    model = await opened(tmp_path)
    caplog.clear()

    def score(form: str) -> tuple[int, str, str]:
        document = {"dataframe_records": [{"text": "a"}], "params": {"form": form}}
        return model.score_body(json.dumps(document).encode(), "application/json")

    assert json.loads(score("chat")[2]) == {"predictions": [{"role": "assistant", "n": 1}]}
    with pytest.raises(mlflow.exceptions.MlflowException):
        score("secret")
    status, _, answer = score("mine")
    assert status == 400
    assert json.loads(answer)["error_code"] == "INVALID_PARAMETER_VALUE"
    assert score("not found")[0] == 404
    assert not caplog.records
    status, _, answer = score("broken")
    assert status == 400
    assert json.loads(answer)["error_code"] == "BAD_REQUEST"
    assert "the reason" not in answer
    assert "the reason" in caplog.text


async def test_scoring_result_without_json_is_model_error(tmp_path: Path) -> None:
    echo(tmp_path, Schema([ColSpec(DataType.string, "text")]))
    model = await opened(tmp_path)
    document = {"dataframe_records": [{"text": "a"}], "params": {"form": "object"}}
    with pytest.raises(TypeError):
        model.score_body(json.dumps(document).encode(), "application/json")


async def test_unified_llm_input_is_returned_without_predictions(tmp_path: Path) -> None:
    echo(tmp_path, None)
    model = await opened(tmp_path)
    document = {"messages": [{"role": "user", "content": "hi"}], "n": 1}
    assert json.loads(model.score_body(json.dumps(document).encode(), "application/json")[2]) == document


MLSERVER_NAME = "mlserver_mlflow.MLflowRuntime"


async def test_content_types_under_the_mlserver_name(tmp_path: Path) -> None:
    from mlflow.types.schema import Array

    kinds = {"n": DataType.long, "text": DataType.string, "day": DataType.datetime, "blob": DataType.binary}
    specs = [*(ColSpec(kind, name) for name, kind in kinds.items()), ColSpec(Array(DataType.long), "list")]
    echo(tmp_path, Schema(specs))
    model = MLflowModel(
        ModelSettings(name="m", implementation=MLSERVER_NAME, parameters={"uri": str(tmp_path)})
    )
    await model.load()
    metadata = await model.metadata()
    assert metadata.parameters.content_type == "pd"
    assert [each.parameters.content_type for each in metadata.inputs] == [
        *("np", "str", "datetime", "base64", "pd_json")
    ]
    other = await opened(tmp_path)
    assert (await other.metadata()).parameters.content_type is None


@pytest.mark.parametrize(
    ("result", "content_type"),
    [
        (np.ones(2), "np"),
        ([1, 2], "np"),
        (["a"], "str"),
        ({"a": np.ones(2)}, "dict"),
        (pd.DataFrame({"a": [1]}), "pd"),
    ],
)
def test_response_content_type_under_the_mlserver_name(result: Any, content_type: str) -> None:
    model = MLflowModel(ModelSettings(name="m", implementation=MLSERVER_NAME))
    assert model._response(result).parameters.content_type == content_type
    if content_type != "pd":
        own = MLflowModel(ModelSettings(name="m", implementation=MLflowModel))
        assert own._response(result).parameters is None


@pytest.mark.parametrize(
    ("specs", "content_type"),
    [
        ([TensorSpec(np.dtype("float32"), (-1, 2), "x")], "dict"),
        ([TensorSpec(np.dtype("float32"), (-1, 2))], "np"),
    ],
)
async def test_tensor_content_types_under_the_mlserver_name(
    tmp_path: Path, specs: list[TensorSpec], content_type: str
) -> None:
    echo(tmp_path, Schema(specs))
    model = MLflowModel(
        ModelSettings(name="m", implementation=MLSERVER_NAME, parameters={"uri": str(tmp_path)})
    )
    await model.load()
    metadata = await model.metadata()
    assert metadata.parameters.content_type == content_type
    assert [each.parameters.content_type for each in metadata.inputs] == ["np"]


@pytest.mark.parametrize("key", ["code", "model_code_path", "loader_module"])
async def test_trusted_runtimes_load_no_modules_of_a_model(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier(tmp_path)
    runtimes = TrustedRuntimes.of(["mlflow"])
    monkeypatch.setattr(TrustedRuntimes, "current", lambda: runtimes)
    await opened(tmp_path)
    described = tmp_path / "MLmodel"
    text = described.read_text()
    if key == "loader_module":
        text = text.replace("loader_module: mlflow.sklearn", "loader_module: own")
    else:
        text = text.replace(
            "loader_module: mlflow.sklearn", f"{key}: code\n    loader_module: mlflow.sklearn"
        )
    described.write_text(text)
    (tmp_path / "code").mkdir()
    with pytest.raises(InvalidSettings, match=f'"{key}" of MLmodel would run code from there; the list'):
        await opened(tmp_path)
