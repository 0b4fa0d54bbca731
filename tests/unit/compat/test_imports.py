"""MLServer's public names are there under its own imports, and nothing heavy comes with them."""

import importlib
import subprocess
import sys

import pytest

from inferstream import compat
from inferstream.errors import ModelError

NAMES = {
    "mlserver": "MLModel MLServer ModelSettings Settings __version__ log register",
    "mlserver.batch_processing": (
        "BatchInputItem BatchOutputItem CHOICES_TRANSPORT TritonRequest get_headers postprocess_items"
        " preprocess_items process_batch"
    ),
    "mlserver.batching": "AdaptiveBatcher BatchedRequests load_batching",
    "mlserver.batching.hooks": "adaptive_batching load_batching",
    "mlserver.batching.requests": "BatchedRequests _merge_parameters",
    "mlserver.batching.shape": "Shape",
    "mlserver.cache": "LocalCache ResponseCache",
    "mlserver.cli": "main",
    "mlserver.cli.build": "build_image generate_dockerfile write_dockerfile",
    "mlserver.cli.main": "main root",
    "mlserver.cli.serve": "DEFAULT_SETTINGS_FILENAME load_settings",
    "mlserver.cloudevents": (
        "CLOUDEVENTS_HEADER_ID CLOUDEVENTS_HEADER_SPECVERSION CLOUDEVENTS_HEADER_TYPE CloudEventsMiddleware"
        " CloudEventsTypes get_namespace"
    ),
    "mlserver.codecs": (
        "Base64Codec CodecError DatetimeCodec DecodedParameterName InputCodec InputCodecLike NumpyCodec"
        " NumpyRequestCodec PandasCodec RequestCodec RequestCodecLike StringCodec StringRequestCodec"
        " decode_args decode_inference_request decode_request_input encode_inference_response"
        " encode_response_output get_decoded get_decoded_or_raw has_decoded register_input_codec"
        " register_request_codec"
    ),
    "mlserver.codecs.base": (
        "InputCodec InputCodecLike RequestCodec RequestCodecLike _codec_registry find_input_codec"
        " find_input_codec_by_payload find_input_codec_by_type_hint find_request_codec"
        " find_request_codec_by_payload find_request_codec_by_type_hint register_input_codec"
        " register_request_codec"
    ),
    "mlserver.codecs.base64": "Base64Codec",
    "mlserver.codecs.datetime": "DatetimeCodec",
    "mlserver.codecs.decorator": "SignatureCodec decode_args",
    "mlserver.codecs.errors": "CodecError CodecNotFound InputsNotFound OutputNotFound",
    "mlserver.codecs.json": (
        "JSONEncoderWithArray decode_from_bytelike_json_to_dict decode_json_input_or_output encode_to_json"
        " encode_to_json_bytes"
    ),
    "mlserver.codecs.lists": "ListElement ListPayload as_list is_list_of",
    "mlserver.codecs.numpy": (
        "NumpyCodec NumpyRequestCodec _encode_data _to_ndarray convert_nan to_datatype to_dtype"
    ),
    "mlserver.codecs.pandas": "PandasCodec",
    "mlserver.codecs.string": "StringCodec StringRequestCodec decode_str encode_str",
    "mlserver.codecs.utils": (
        "Codec DefaultInputPrefix DefaultOutputPrefix InputOrOutput Parametrised SingleInputRequestCodec"
        " Tagged _save_decoded get_decoded_or_raw has_decoded inject_batch_dimension"
    ),
    "mlserver.context": "model_context model_name_var model_version_var",
    "mlserver.env": "Environment compute_hash_of_file compute_hash_of_string",
    "mlserver.errors": (
        "InferenceError InvalidModelURI MLServerError ModelNotFound ModelNotReady ModelParametersMissing"
    ),
    "mlserver.grpc": "GRPCServer",
    "mlserver.grpc.converters": (
        "InferInputTensorConverter InferOutputTensorConverter InferRequestedOutputTensorConverter"
        " InferTensorContentsConverter ModelInferRequestConverter ModelInferResponseConverter"
        " ModelMetadataResponseConverter ParametersConverter RepositoryIndexRequestConverter"
        " RepositoryIndexResponseConverter RepositoryIndexResponseItemConverter"
        " ServerMetadataResponseConverter TensorMetadataConverter"
    ),
    "mlserver.grpc.dataplane_pb2": "ModelInferRequest ModelInferResponse",
    "mlserver.grpc.dataplane_pb2_grpc": (
        "GRPCInferenceServiceServicer GRPCInferenceServiceStub add_GRPCInferenceServiceServicer_to_server"
    ),
    "mlserver.grpc.model_repository_pb2": "RepositoryIndexRequest RepositoryModelLoadRequest",
    "mlserver.grpc.model_repository_pb2_grpc": (
        "ModelRepositoryServiceServicer ModelRepositoryServiceStub"
        " add_ModelRepositoryServiceServicer_to_server"
    ),
    "mlserver.grpc.utils": "STATUS_CODE_MAPPING handle_mlserver_error to_headers to_metadata",
    "mlserver.handlers": "DataPlane ModelRepositoryHandlers custom_handler get_custom_handlers",
    "mlserver.handlers.custom": "CustomHandler register_custom_handler",
    "mlserver.kafka": "KafkaServer",
    "mlserver.kafka.errors": "InvalidMessageHeaders",
    "mlserver.kafka.handlers": "KafkaHandlers",
    "mlserver.kafka.message": "KafkaMessage",
    "mlserver.logging": (
        "LoggerName ModelLoggerFormatter apply_logging_file configure_logger get_logger logger"
    ),
    "mlserver.metrics": "MetricsServer REGISTRY configure_metrics log register",
    "mlserver.metrics.context": "SELDON_MODEL_NAME_LABEL SELDON_MODEL_VERSION_LABEL",
    "mlserver.metrics.errors": "InvalidModelContext MetricNotFound",
    "mlserver.metrics.registry": "MetricsRegistry",
    "mlserver.middleware": "InferenceMiddleware InferenceMiddlewares",
    "mlserver.model": "MLModel",
    "mlserver.parallel": "InferencePoolRegistry Worker configure_inference_pool",
    "mlserver.parallel.dispatcher": "Dispatcher",
    "mlserver.parallel.errors": "EnvironmentNotFound WorkerError WorkerStop",
    "mlserver.parallel.messages": "ModelRequestMessage ModelResponseMessage ModelUpdateMessage",
    "mlserver.parallel.model": "ParallelModel",
    "mlserver.parallel.pool": "InferencePool",
    "mlserver.raw": "extract_raw inject_raw pack unpack",
    "mlserver.registry": "MultiModelRegistry SingleModelRegistry model_initialiser",
    "mlserver.repository": (
        "DEFAULT_MODEL_SETTINGS_FILENAME ModelRepository ModelRepositoryFactory SchemalessModelRepository"
    ),
    "mlserver.repository.factory": "ModelRepositoryFactory",
    "mlserver.repository.load": "load_model_settings",
    "mlserver.repository.repository": "ModelRepository SchemalessModelRepository",
    "mlserver.rest": "RESTServer",
    "mlserver.rest.app": "create_app",
    "mlserver.rest.errors": "APIErrorResponse",
    "mlserver.rest.responses": "Response ServerSentEvent",
    "mlserver.settings": (
        "BaseSettings CORSSettings DEFAULT_ENVIRONMENTS_DIR DEFAULT_METRICS_DIR DEFAULT_PARALLEL_WORKERS"
        " ENV_FILE_SETTINGS ENV_PREFIX_MODEL_SETTINGS ENV_PREFIX_SETTINGS ModelParameters ModelSettings"
        " Settings"
    ),
    "mlserver.tracing": "get_tracer_provider",
    "mlserver.types": (
        "Datatype InferenceErrorResponse InferenceRequest InferenceResponse MetadataModelErrorResponse"
        " MetadataModelResponse MetadataServerErrorResponse MetadataServerResponse MetadataTensor Parameters"
        " RepositoryIndexRequest RepositoryIndexResponse RepositoryIndexResponseItem"
        " RepositoryLoadErrorResponse RepositoryUnloadErrorResponse RequestInput RequestOutput"
        " ResponseOutput State TensorData"
    ),
    "mlserver.types.base": "BaseModel",
    "mlserver.utils": (
        "AsyncManager EventLoopBackend extract_headers generate_uuid get_model_uri get_wrapped_method"
        " insert_headers install_uvloop_event_loop schedule_with_callback to_absolute_path"
    ),
    "mlserver.version": "__version__",
}
"""What MLServer 1.7.1 documents, and what runtimes written for it import besides."""


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
    assert MLServerError(msg="gone", status_code=404).status_code == 404
    assert isinstance(InferenceError("bad"), ModelError)
    assert ModelParametersMissing("m").status_code == 400


def test_what_codecs_and_uris_fail_with_is_caught_under_mlservers_name() -> None:
    from mlserver.codecs.errors import CodecError, CodecNotFound, InputsNotFound, OutputNotFound
    from mlserver.errors import InvalidModelURI, MLServerError

    errors = [CodecError("no"), CodecNotFound("x"), InputsNotFound({}), OutputNotFound(0, "int", [])]
    for error in [*errors, InvalidModelURI("m")]:
        assert isinstance(error, MLServerError)
        assert error.status_code == 400


def test_models_pull_no_web_framework_in_and_nothing_is_found_before_it_is_asked_for() -> None:
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('mlserver') is None\n"
        "import inferstream.compat; inferstream.compat.install(); inferstream.compat.install()\n"
        "from mlserver import MLModel; from mlserver.codecs import decode_args\n"
        "assert not {'fastapi', 'grpc', 'pandas', 'prometheus_client'} & set(sys.modules)\n"
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
