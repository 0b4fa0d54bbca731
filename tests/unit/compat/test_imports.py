"""MLServer's public names are there under its own imports, and nothing heavy comes with them."""

import importlib
import subprocess
import sys

import pytest

from inferstream import compat
from inferstream.errors import ModelError

NAMES = {
    "mlserver": "MLModel MLServer ModelSettings Settings __version__ log register",
    "mlserver.model": "MLModel",
    "mlserver.types": (
        "Datatype InferenceErrorResponse InferenceRequest InferenceResponse MetadataModelErrorResponse"
        " MetadataModelResponse MetadataServerErrorResponse MetadataServerResponse MetadataTensor Parameters"
        " RepositoryIndexRequest RepositoryIndexResponse RepositoryIndexResponseItem"
        " RepositoryLoadErrorResponse RepositoryUnloadErrorResponse RequestInput RequestOutput"
        " ResponseOutput State TensorData"
    ),
    "mlserver.types.base": "BaseModel",
    "mlserver.codecs": (
        "Base64Codec CodecError DatetimeCodec DecodedParameterName InputCodec InputCodecLike NumpyCodec"
        " NumpyRequestCodec PandasCodec RequestCodec RequestCodecLike StringCodec StringRequestCodec"
        " decode_args decode_inference_request decode_request_input encode_inference_response"
        " encode_response_output get_decoded get_decoded_or_raw has_decoded register_input_codec"
        " register_request_codec"
    ),
    "mlserver.codecs.base": "InputCodec RequestCodec find_input_codec find_request_codec register_input_codec",
    "mlserver.codecs.utils": "DefaultInputPrefix DefaultOutputPrefix SingleInputRequestCodec inject_batch_dimension",
    "mlserver.codecs.lists": "as_list is_list_of",
    "mlserver.codecs.numpy": "NumpyCodec NumpyRequestCodec to_datatype to_dtype",
    "mlserver.codecs.pandas": "PandasCodec",
    "mlserver.codecs.string": "StringCodec StringRequestCodec decode_str encode_str",
    "mlserver.settings": (
        "BaseSettings CORSSettings DEFAULT_PARALLEL_WORKERS ENV_FILE_SETTINGS ENV_PREFIX_MODEL_SETTINGS"
        " ENV_PREFIX_SETTINGS ModelParameters ModelSettings Settings"
    ),
    "mlserver.utils": "extract_headers generate_uuid get_model_uri insert_headers to_absolute_path",
    "mlserver.errors": (
        "InferenceError InvalidModelURI MLServerError ModelNotFound ModelNotReady ModelParametersMissing"
    ),
    "mlserver.metrics": "log register",
    "mlserver.context": "model_context model_name_var model_version_var",
    "mlserver.logging": "get_logger logger",
    "mlserver.repository": "DEFAULT_MODEL_SETTINGS_FILENAME ModelRepository SchemalessModelRepository",
    "mlserver.repository.load": "load_model_settings",
    "mlserver.grpc.converters": "ModelInferRequestConverter ModelInferResponseConverter",
    "mlserver.grpc.dataplane_pb2": "ModelInferRequest ModelInferResponse",
    "mlserver.grpc.dataplane_pb2_grpc": "GRPCInferenceServiceServicer GRPCInferenceServiceStub",
}


@pytest.fixture(autouse=True)
def _installed() -> None:
    compat.install()


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in NAMES[module].split():
        assert hasattr(found, name), f"{module}.{name}"


def test_classes_are_the_same_under_both_names() -> None:
    import mlserver
    import mlserver.types

    import inferstream
    import inferstream.types

    assert mlserver.ModelSettings is inferstream.ModelSettings
    assert mlserver.types.InferenceRequest is inferstream.types.InferenceRequest


def test_models_may_select_their_outputs() -> None:
    import mlserver.model

    import inferstream

    assert mlserver.MLModel is mlserver.model.MLModel
    assert issubclass(mlserver.MLModel, inferstream.MLModel)
    assert mlserver.MLModel.selects_outputs is None


def test_errors_keep_their_status() -> None:
    from mlserver.errors import InferenceError, MLServerError, ModelParametersMissing

    assert MLServerError("no tea", status_code=418).status_code == 418
    assert MLServerError("no").status_code == 400
    assert isinstance(InferenceError("bad"), ModelError)
    assert ModelParametersMissing("m").status_code == 400


def test_models_pull_no_web_framework_in_and_nothing_is_found_before_it_is_asked_for() -> None:
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('mlserver') is None\n"
        "import inferstream.compat; inferstream.compat.install(); inferstream.compat.install()\n"
        "from mlserver import MLModel; from mlserver.codecs import decode_args\n"
        "assert not {'fastapi', 'grpc', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_installed_package_goes_first(tmp_path) -> None:
    (tmp_path / "mlserver").mkdir()
    (tmp_path / "mlserver" / "__init__.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import mlserver; assert mlserver.real\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_headers_go_into_requests_and_come_out_of_responses() -> None:
    from mlserver.types import InferenceRequest, InferenceResponse, Parameters
    from mlserver.utils import extract_headers, insert_headers

    request = insert_headers(InferenceRequest(inputs=[]), {"x": "y"})
    assert request.parameters.headers == {"x": "y"}
    response = InferenceResponse(model_name="m", outputs=[], parameters=Parameters(headers={"a": "b"}))
    assert extract_headers(response) == {"a": "b"}
    assert response.parameters.headers is None
    assert extract_headers(response) is None
