"""MLServer's modules and their names: where each name's object is, or what to use instead.

A table of {module: {names: target}}; names with one target stand together, separated by spaces. A target is a
module that has the same name, or `module:object`; one that begins with a dot is in `compat/mlserver`.
"""

from typing import NamedTuple


class Late(NamedTuple):
    """A target that is heavy, and imported when the name is read for the first time."""

    target: str


class Instead(NamedTuple):
    """A part of MLServer that inferstream does not have, and what to use instead."""

    sentence: str


Target = str | Late | Instead

VERSION = "1.7.1"
"""The release of MLServer whose contract is followed."""

INFER = Instead("`server infer` asks a server for every request of a file")
SERVER = Instead("mlserver.MLServer serves every protocol")
METRICS = Instead("the server counts calls and serves metrics")
OPENAPI = Instead("the server describes its models at /v2/docs/dataplane.json")
STUBS = Instead("the stubs in mlserver.grpc.dataplane_pb2_grpc call a server")
IMAGE = Instead("`server dockerfile FOLDER` writes the files of an image")
WORKERS = Instead("the server runs worker processes where parallel_workers asks for them")
KAFKA = Instead("kafka_enabled in the settings serves a topic")
BATCHING = Instead("the server batches where max_batch_size and max_batch_time ask for it")
CUSTOM = Instead("@custom_handler adds a route")
GRPC = Instead("grpc.__version__ is the version of the library")
EVENT_LOOP = Instead("mlserver.utils.AsyncManager runs a coroutine")

TYPES = (
    "BaseModel Datatype Headers InferenceErrorResponse InferenceRequest InferenceResponse"
    " MetadataModelErrorResponse MetadataModelResponse MetadataServerErrorResponse MetadataServerResponse"
    " MetadataTensor Parameters RepositoryIndexRequest RepositoryIndexResponse RepositoryIndexResponseItem"
    " RepositoryLoadErrorResponse RepositoryUnloadErrorResponse RequestInput RequestOutput ResponseOutput State"
    " TensorData"
)
MESSAGES = (
    "DESCRIPTOR InferParameter InferTensorContents ModelInferRequest ModelInferResponse ModelMetadataRequest"
    " ModelMetadataResponse ModelReadyRequest ModelReadyResponse ModelRepositoryParameter"
    " ModelStreamInferResponse RepositoryIndexRequest RepositoryIndexResponse RepositoryModelLoadRequest"
    " RepositoryModelLoadResponse RepositoryModelUnloadRequest RepositoryModelUnloadResponse ServerLiveRequest"
    " ServerLiveResponse ServerMetadataRequest ServerMetadataResponse ServerReadyRequest ServerReadyResponse"
)
CLOUDEVENTS = (
    "CLOUDEVENTS_HEADER_ENDPOINT CLOUDEVENTS_HEADER_ID CLOUDEVENTS_HEADER_INFERENCE_SERVICE"
    " CLOUDEVENTS_HEADER_MODEL_ID CLOUDEVENTS_HEADER_NAMESPACE CLOUDEVENTS_HEADER_REQUEST_ID"
    " CLOUDEVENTS_HEADER_SOURCE CLOUDEVENTS_HEADER_SPECVERSION CLOUDEVENTS_HEADER_SPECVERSION_DEFAULT"
    " CLOUDEVENTS_HEADER_TYPE CloudEventsMiddleware CloudEventsTypes get_namespace"
)

MODULES: dict[str, dict[str, Target]] = {
    "mlserver": {
        "MLModel": "mlserver.model",
        "MLServer": Late("mlserver.server"),
        "ModelSettings Settings": "inferstream.settings",
        "__version__": "mlserver.version",
        "log register": "mlserver.metrics.context",
    },
    "mlserver.batch_processing": {
        "BatchInputItem BatchOutputItem CHOICES_TRANSPORT get_headers process_batch": ".commands",
        "logger": "mlserver.logging",
        "FINALIZER_REPORT_FREQUENCY RETRY_SLEEP_TIME TritonRequest consume finalize"
        " infer_result_to_infer_response postprocess_items preprocess_items process_items produce"
        " send_requests setup_logging": INFER,
        "click_async": EVENT_LOOP,
    },
    "mlserver.batching": {
        "AdaptiveBatcher": "mlserver.batching.adaptive",
        "BatchedRequests": "mlserver.batching.requests",
        "load_batching": "mlserver.batching.hooks",
    },
    "mlserver.batching.adaptive": {"AdaptiveBatcher": BATCHING},
    "mlserver.batching.hooks": {
        "InvalidBatchingMethod": ".errors",
        "adaptive_batching load_batching": ".stages",
        "not_implemented_warning": BATCHING,
    },
    "mlserver.batching.requests": {"BatchedRequests _merge_parameters": ".stages"},
    "mlserver.batching.shape": {"Shape": ".stages"},
    "mlserver.cache": {"LocalCache": "mlserver.cache.local", "ResponseCache": "mlserver.cache.cache"},
    "mlserver.cache.cache": {"ResponseCache": ".stages"},
    "mlserver.cache.local": {"LocalCache": "mlserver.cache.local.local"},
    "mlserver.cache.local.local": {"LocalCache": ".stages"},
    "mlserver.cli": {"main": "mlserver.cli.main"},
    "mlserver.cli.build": {
        "generate_dockerfile write_dockerfile": ".commands",
        "build_image": Instead("`server build FOLDER --tag TAG` builds an image"),
    },
    "mlserver.cli.constants": {
        "DefaultBaseImage DockerfileName DockerfileTemplate Dockerignore DockerignoreName": IMAGE,
    },
    "mlserver.cli.init_project": {
        "init_cookiecutter_project": Instead("`server init` writes a model folder"),
    },
    "mlserver.cli.main": {
        "build dockerfile infer init_project main root start": ".commands",
        "click_async": EVENT_LOOP,
    },
    "mlserver.cli.serve": {
        "DEFAULT_SETTINGS_FILENAME": "inferstream.settings:SETTINGS_FILE",
        "load_settings": ".server",
    },
    "mlserver.cloudevents": {CLOUDEVENTS: ".stages"},
    "mlserver.codecs": {
        "Base64Codec CodecError DatetimeCodec DecodedParameterName InputCodec InputCodecLike NumpyCodec"
        " NumpyRequestCodec RequestCodec RequestCodecLike StringCodec StringRequestCodec decode_args"
        " get_decoded get_decoded_or_raw has_decoded register_input_codec"
        " register_request_codec": "inferstream.codecs",
        "PandasCodec": Late("mlserver.codecs.pandas"),
        "decode_inference_request decode_request_input encode_inference_response"
        " encode_response_output": "mlserver.codecs.utils",
    },
    "mlserver.codecs.base": {
        "InputCodec InputCodecLike RequestCodec RequestCodecLike": "inferstream.codecs.base",
        "find_input_codec find_request_codec register_input_codec"
        " register_request_codec": "inferstream.codecs.registry",
        "find_input_codec_by_payload find_input_codec_by_type_hint find_request_codec_by_payload"
        " find_request_codec_by_type_hint _CodecRegistry _codec_registry": ".codecs",
        "deprecated": Instead("a codec overrides encode_output, decode_input and the like"),
    },
    "mlserver.codecs.base64": {"Base64Codec": "inferstream.codecs.base64"},
    "mlserver.codecs.datetime": {"DatetimeCodec": "inferstream.codecs.datetime"},
    "mlserver.codecs.decorator": {
        "PredictFunc SignatureCodec": ".codecs",
        "decode_args": "inferstream.codecs.signature",
    },
    "mlserver.codecs.errors": {
        "CodecError CodecNotFound InputsNotFound OutputNotFound": "inferstream.errors"
    },
    "mlserver.codecs.json": {
        "JSONEncoderWithArray decode_from_bytelike_json_to_dict decode_json_input_or_output encode_to_json"
        " encode_to_json_bytes": "inferstream.codecs.json",
    },
    "mlserver.codecs.lists": {
        "ListElement ListPayload as_list": ".codecs",
        "is_list_of": "inferstream.codecs.lists",
    },
    "mlserver.codecs.numpy": {
        "NumpyCodec NumpyRequestCodec to_datatype": "inferstream.codecs.numpy",
        "convert_nan to_dtype _encode_data _to_ndarray": ".codecs",
    },
    "mlserver.codecs.pandas": {"PandasCodec": "inferstream.codecs.pandas"},
    "mlserver.codecs.string": {
        "StringCodec StringRequestCodec": "inferstream.codecs.string",
        "decode_str encode_str": ".codecs",
    },
    "mlserver.codecs.utils": {
        "Codec InputOrOutput Parametrised Tagged _save_decoded decode_inference_request decode_request_input"
        " encode_inference_response encode_response_output": ".codecs",
        "DecodedParameterName get_decoded get_decoded_or_raw has_decoded": "inferstream.codecs",
        "DefaultInputPrefix": "inferstream.codecs.base:INPUT_PREFIX",
        "DefaultOutputPrefix": "inferstream.codecs.base:OUTPUT_PREFIX",
        "SingleInputRequestCodec": "inferstream.codecs.base",
        "inject_batch_dimension": "inferstream.codecs.numpy:batch_shape",
    },
    "mlserver.context": {
        "model_context": ".telemetry",
        "model_name_var model_version_var": "inferstream.telemetry.context",
    },
    "mlserver.env": {
        "compute_hash_of_file compute_hash_of_string": ".settings",
        "Environment": Instead(
            "environment_tarball or environment_path in a model's settings names an environment"
        ),
    },
    "mlserver.errors": {
        "InferenceError ModelParametersMissing": ".errors",
        "InvalidModelURI ModelNotFound ModelNotReady": "inferstream.errors",
        "MLServerError": "inferstream.errors:ModelError",
    },
    "mlserver.grpc": {"GRPCServer": "mlserver.grpc.server"},
    "mlserver.grpc.converters": {
        "InferInputTensorConverter InferOutputTensorConverter ModelInferRequestConverter"
        " ModelInferResponseConverter": ".converters",
        "InferRequestedOutputTensorConverter InferTensorContentsConverter ModelMetadataResponseConverter"
        " ParametersConverter RepositoryIndexRequestConverter RepositoryIndexResponseConverter"
        " RepositoryIndexResponseItemConverter ServerMetadataResponseConverter"
        " TensorMetadataConverter": "inferstream.protos.converters",
    },
    "mlserver.grpc.dataplane_pb2": {MESSAGES: "inferstream.protos.dataplane_pb2"},
    "mlserver.grpc.dataplane_pb2_grpc": {
        "GRPCInferenceServiceServicer GRPCInferenceServiceStub"
        " add_GRPCInferenceServiceServicer_to_server": "inferstream.protos.dataplane_pb2_grpc",
        "GRPCInferenceService": STUBS,
        "GRPC_GENERATED_VERSION GRPC_VERSION": GRPC,
    },
    "mlserver.grpc.interceptors": {
        "LoggingInterceptor PromServerInterceptor wrap_async_iterator_inc_counter": METRICS,
    },
    "mlserver.grpc.logging": {"logger": ".telemetry:GRPC", "gRPCLoggerName": ".telemetry:GRPC.name"},
    "mlserver.grpc.model_repository": {"ModelRepositoryServicer": SERVER},
    "mlserver.grpc.model_repository_pb2": {MESSAGES: "inferstream.protos.dataplane_pb2"},
    "mlserver.grpc.model_repository_pb2_grpc": {
        "ModelRepositoryServiceServicer ModelRepositoryServiceStub"
        " add_ModelRepositoryServiceServicer_to_server": "inferstream.protos.dataplane_pb2_grpc",
        "ModelRepositoryService": STUBS,
        "GRPC_GENERATED_VERSION GRPC_VERSION": GRPC,
    },
    "mlserver.grpc.server": {"DefaultGrpcWorkers GRPCServer": SERVER},
    "mlserver.grpc.servicers": {"InferenceServicer": SERVER},
    "mlserver.grpc.utils": {
        "STATUS_CODE_MAPPING handle_mlserver_error handle_mlserver_stream_error to_headers to_metadata": ".grpc",
    },
    "mlserver.handlers": {
        "DataPlane": "mlserver.handlers.dataplane",
        "ModelRepositoryHandlers": "mlserver.handlers.model_repository",
        "custom_handler get_custom_handlers": "inferstream.handlers",
    },
    "mlserver.handlers.custom": {
        "CustomHandler custom_handler get_custom_handlers": "inferstream.handlers",
        "register_custom_handler": ".model",
    },
    "mlserver.handlers.dataplane": {
        "DataPlane": Instead(
            "mlserver.MLServer serves models, and a model's own methods answer without a server"
        ),
    },
    "mlserver.handlers.model_repository": {
        "ModelRepositoryHandlers": SERVER,
        "NO_VERSION_KEY": Instead("a model without a version has the version None"),
    },
    "mlserver.kafka": {"KafkaServer": "mlserver.kafka.server"},
    "mlserver.kafka.errors": {"InvalidMessageHeaders": ".errors"},
    "mlserver.kafka.handlers": {
        "KafkaHandlers": KAFKA,
        "MLSERVER_MODEL_NAME_HEADER MLSERVER_MODEL_VERSION_HEADER": ".settings",
    },
    "mlserver.kafka.logging": {"logger": ".telemetry:KAFKA", "loggerName": ".telemetry:KAFKA.name"},
    "mlserver.kafka.message": {"KafkaMessage": KAFKA},
    "mlserver.kafka.server": {"KafkaMethodTypes KafkaServer": KAFKA},
    "mlserver.logging": {
        "LoggerName ModelLoggerFormatter apply_logging_file configure_logger get_logger logger": ".telemetry",
    },
    "mlserver.metrics": {
        "MetricsServer": "mlserver.metrics.server",
        "REGISTRY": "mlserver.metrics.registry",
        "configure_metrics": "mlserver.metrics.prometheus",
        "log register": "mlserver.metrics.context",
    },
    "mlserver.metrics.context": {
        "SELDON_MODEL_NAME_LABEL SELDON_MODEL_VERSION_LABEL log register": ".telemetry",
        "model_name_var model_version_var": "inferstream.telemetry.context",
    },
    "mlserver.metrics.errors": {"InvalidModelContext MetricNotFound": ".telemetry"},
    "mlserver.metrics.logging": {"logger": ".telemetry:METRICS", "loggerName": ".telemetry:METRICS.name"},
    "mlserver.metrics.prometheus": {
        "PROMETHEUS_MULTIPROC_DIR configure_metrics": ".telemetry",
        "PrometheusEndpoint stop_metrics": METRICS,
    },
    "mlserver.metrics.registry": {"MetricsRegistry REGISTRY": ".telemetry"},
    "mlserver.metrics.server": {"MetricsServer": METRICS},
    "mlserver.middleware": {"InferenceMiddleware InferenceMiddlewares": ".stages"},
    "mlserver.model": {"MLModel": ".model"},
    "mlserver.parallel": {
        "InferencePool": "mlserver.parallel.pool",
        "InferencePoolRegistry": "mlserver.parallel.registry",
        "Worker": "mlserver.parallel.worker",
        "configure_inference_pool": "mlserver.parallel.utils",
    },
    "mlserver.parallel.dispatcher": {
        "QUEUE_METRIC_NAME": ".telemetry",
        "AsyncResponses Dispatcher": WORKERS,
    },
    "mlserver.parallel.errors": {"EnvironmentNotFound WorkerError WorkerStop": ".errors"},
    "mlserver.parallel.logging": {
        "logger": ".telemetry:PARALLEL",
        "gRPCLoggerName": ".telemetry:PARALLEL.name",
    },
    "mlserver.parallel.messages": {
        "Message ModelRequestMessage ModelResponseMessage ModelUpdateMessage ModelUpdateType": WORKERS,
    },
    "mlserver.parallel.model": {"ModelMethods ParallelModel": WORKERS},
    "mlserver.parallel.pool": {"InferencePool InferencePoolHook PredictMethod WorkerRegistry": WORKERS},
    "mlserver.parallel.registry": {"ENV_HASH_ATTR InferencePoolRegistry": WORKERS},
    "mlserver.parallel.utils": {
        "configure_inference_pool": ".settings",
        "END_OF_QUEUE cancel_task terminate_queue": WORKERS,
    },
    "mlserver.parallel.worker": {"IGNORED_SIGNALS Worker": WORKERS},
    "mlserver.raw": {"extract_raw inject_raw pack unpack": ".codecs"},
    "mlserver.registry": {
        "ModelInitialiser ModelRegistryHook ModelReloadHook model_initialiser": ".settings",
        "MultiModelRegistry SingleModelRegistry": Instead("mlserver.MLServer keeps the models"),
    },
    "mlserver.repository": {
        "DEFAULT_MODEL_SETTINGS_FILENAME ModelRepository"
        " SchemalessModelRepository": "mlserver.repository.repository",
        "ModelRepositoryFactory": Late("mlserver.repository.factory"),
    },
    "mlserver.repository.factory": {"ModelRepositoryFactory": ".server"},
    "mlserver.repository.load": {"load_model_settings": ".settings"},
    "mlserver.repository.repository": {
        "DEFAULT_MODEL_SETTINGS_FILENAME": "inferstream.settings:MODEL_SETTINGS_FILE",
        "ModelRepository": "inferstream.repository",
        "SchemalessModelRepository": "inferstream.repository:FolderRepository",
    },
    "mlserver.rest": {"RESTServer": "mlserver.rest.server"},
    "mlserver.rest.app": {"APIRoute": CUSTOM, "create_app": SERVER},
    "mlserver.rest.endpoints": {"Endpoints ModelRepositoryEndpoints": SERVER},
    "mlserver.rest.errors": {"APIErrorResponse handle_mlserver_error": ".rest"},
    "mlserver.rest.logging": {
        "logger": ".telemetry:REST",
        "loggerName": ".telemetry:REST.name",
        "HealthEndpointFilter disable_health_access_logs": Instead("the server logs no health probes"),
    },
    "mlserver.rest.openapi": {"get_model_schema get_model_schema_uri get_openapi_schema": OPENAPI},
    "mlserver.rest.openapi.schema": {
        "MODEL_NAME_PARAMETER MODEL_VERSION_PARAMETER get_model_schema get_model_schema_uri"
        " get_openapi_schema": OPENAPI,
    },
    "mlserver.rest.requests": {"Request": "starlette.requests"},
    "mlserver.rest.responses": {"Response ServerSentEvent": ".rest"},
    "mlserver.rest.server": {"RESTServer": SERVER},
    "mlserver.rest.utils": {"matches to_scope": CUSTOM, "to_status_code": SERVER},
    "mlserver.server": {"HANDLED_SIGNALS MLServer": ".server"},
    "mlserver.settings": {
        "BaseSettings": "inferstream.settings.environment:EnvironmentModel",
        "CORSSettings ModelParameters ModelSettings Settings": "inferstream.settings",
        "DEFAULT_ENVIRONMENTS_DIR DEFAULT_METRICS_DIR DEFAULT_PARALLEL_WORKERS": ".settings",
        "ENV_FILE_SETTINGS": "inferstream.settings.environment:ENV_FILE",
        "ENV_PREFIX_MODEL_SETTINGS": "inferstream.settings:MLSERVER_MODEL_PREFIX",
        "ENV_PREFIX_SETTINGS": "inferstream.settings:MLSERVER_PREFIX",
    },
    "mlserver.tracing": {"get_tracer_provider": ".telemetry"},
    "mlserver.types": {TYPES: "inferstream.types"},
    "mlserver.types.base": {"BaseModel": "inferstream.types"},
    "mlserver.types.dataplane": {TYPES: "inferstream.types"},
    "mlserver.types.model_repository": {TYPES: "inferstream.types"},
    "mlserver.utils": {
        "AsyncManager EventLoopBackend extract_headers generate_uuid get_wrapped_method insert_headers"
        " install_uvloop_event_loop schedule_with_callback": ".model",
        "get_model_uri to_absolute_path": "inferstream.repository.uri",
    },
    "mlserver.version": {"__version__": "inferstream.compat.names:VERSION"},
    "mlserver_sklearn": {
        "SKLearnModel STANDS_IN": "mlserver_sklearn.sklearn",
        "__version__": "mlserver_sklearn.version",
    },
    "mlserver_sklearn.sklearn": {
        "PREDICT_FN_KEY PREDICT_OUTPUT PREDICT_PROBA_OUTPUT PREDICT_TRANSFORM SKLearnModel STANDS_IN": ".runtimes",
        "VALID_OUTPUTS": ".runtimes:SKLEARN_OUTPUTS",
        "WELLKNOWN_MODEL_FILENAMES": ".runtimes:SKLEARN_FILES",
    },
    "mlserver_sklearn.version": {"__version__": "inferstream.compat.names:VERSION"},
    "mlserver_xgboost": {
        "XGBoostModel STANDS_IN": "mlserver_xgboost.xgboost",
        "__version__": "mlserver_xgboost.version",
    },
    "mlserver_xgboost.xgboost": {
        "PREDICT_OUTPUT PREDICT_PROBA_OUTPUT STANDS_IN XGBoostModel": ".runtimes",
        "VALID_OUTPUTS": ".runtimes:XGBOOST_OUTPUTS",
        "WELLKNOWN_MODEL_FILENAMES": ".runtimes:XGBOOST_FILES",
    },
    "mlserver_xgboost.version": {"__version__": "inferstream.compat.names:VERSION"},
    "mlserver_lightgbm": {
        "LightGBMModel STANDS_IN": "mlserver_lightgbm.lightgbm",
        "__version__": "mlserver_lightgbm.version",
    },
    "mlserver_lightgbm.lightgbm": {
        "LightGBMModel STANDS_IN": ".runtimes",
        "WELLKNOWN_MODEL_FILENAMES": ".runtimes:LIGHTGBM_FILES",
    },
    "mlserver_lightgbm.version": {"__version__": "inferstream.compat.names:VERSION"},
}
