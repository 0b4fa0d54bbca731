"""Replacements for the names in MLServer modules."""

from inferstream.ext.hosting import parse_table

PRODUCT = "MLServer"

VERSION = "1.7.1"
"""The compatible MLServer release."""

SENTENCES = {
    "INFER": "`server infer` sends the requests of a file to a server",
    "SERVER": "mlserver.MLServer serves every protocol",
    "METRICS": "the server counts calls and serves metrics",
    "OPENAPI": "the server describes its models at /v2/docs/dataplane.json",
    "STUBS": "the stubs in mlserver.grpc.dataplane_pb2_grpc call a server",
    "IMAGE": "`server dockerfile FOLDER` writes the files of an image",
    "WORKERS": "the server starts worker processes if parallel_workers is set",
    "KAFKA": "kafka_enabled in the settings serves a topic",
    "BATCHING": "the server batches if max_batch_size and max_batch_time are set",
    "CUSTOM": "@custom_handler adds a route",
    "GRPC": "grpc.__version__ is the version of the library",
    "EVENT_LOOP": "mlserver.utils.AsyncManager runs a coroutine",
}

TYPES = (
    "BaseModel, Datatype, Headers, InferenceErrorResponse, InferenceRequest, InferenceResponse, "
    "MetadataModelErrorResponse, MetadataModelResponse, MetadataServerErrorResponse, MetadataServerResponse, "
    "MetadataTensor, Parameters, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryIndexResponseItem, "
    "RepositoryLoadErrorResponse, RepositoryUnloadErrorResponse, RequestInput, RequestOutput, ResponseOutput, State, "
    "TensorData"
)
MESSAGES = (
    "AllowedModelImplementations, RuntimeSecurityRequest, RuntimeSecurityResponse, "
    "DESCRIPTOR, InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse, ModelMetadataRequest, "
    "ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelRepositoryParameter, "
    "ModelStreamInferResponse, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest, "
    "RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse, ServerLiveRequest, "
    "ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse"
)

TABLE = f"""
mlserver: from mlserver.model import MLModel
  late mlserver.server import MLServer
  from inferstream import ModelSettings, Settings
  from mlserver.version import __version__
  from mlserver.metrics.context import log, register
mlserver.batch_processing: from .commands import BatchInputItem, BatchOutputItem, CHOICES_TRANSPORT, get_headers,
      process_batch
  from mlserver.logging import logger
  no FINALIZER_REPORT_FREQUENCY, RETRY_SLEEP_TIME, TritonRequest, consume, finalize, infer_result_to_infer_response,
      postprocess_items, preprocess_items, process_items, produce, send_requests, setup_logging: INFER
  no click_async: EVENT_LOOP
mlserver.batching: from mlserver.batching.adaptive import AdaptiveBatcher
  from mlserver.batching.requests import BatchedRequests
  from mlserver.batching.hooks import load_batching
mlserver.batching.adaptive: no AdaptiveBatcher: BATCHING
mlserver.batching.hooks: from .errors import InvalidBatchingMethod
  from .stages import adaptive_batching, load_batching
  no not_implemented_warning: BATCHING
mlserver.batching.requests: from .batches import BatchedRequests, _merge_parameters
mlserver.batching.shape: from .stages import Shape
mlserver.cache: from mlserver.cache.local import LocalCache
  from mlserver.cache.cache import ResponseCache
mlserver.cache.cache: from .stages import ResponseCache
mlserver.cache.local: from mlserver.cache.local.local import LocalCache
mlserver.cache.local.local: from .stages import LocalCache
mlserver.cli: from mlserver.cli.main import main
mlserver.cli.build: from .commands import generate_dockerfile, write_dockerfile
  no build_image: `server build FOLDER --tag TAG` builds an image
mlserver.cli.constants: no DefaultBaseImage, DockerfileName, DockerfileTemplate, Dockerignore, DockerignoreName: IMAGE
mlserver.cli.init_project: no init_cookiecutter_project: `server init` writes a model folder
mlserver.cli.main: from .commands import build, dockerfile, infer, init_project, main, root, start
  no click_async: EVENT_LOOP
mlserver.cli.serve: from .settings import SETTINGS_FILE as DEFAULT_SETTINGS_FILENAME
  from .server import load_settings
mlserver.cloudevents: from .stages import CLOUDEVENTS_HEADER_ENDPOINT, CLOUDEVENTS_HEADER_ID,
      CLOUDEVENTS_HEADER_INFERENCE_SERVICE, CLOUDEVENTS_HEADER_MODEL_ID, CLOUDEVENTS_HEADER_NAMESPACE,
      CLOUDEVENTS_HEADER_REQUEST_ID, CLOUDEVENTS_HEADER_SOURCE, CLOUDEVENTS_HEADER_SPECVERSION,
      CLOUDEVENTS_HEADER_SPECVERSION_DEFAULT, CLOUDEVENTS_HEADER_TYPE, CloudEventsMiddleware, CloudEventsTypes,
      get_namespace
mlserver.codecs: from inferstream.codecs import Base64Codec, CodecError, DatetimeCodec, DecodedParameterName,
      InputCodec, InputCodecLike, NumpyCodec, NumpyRequestCodec, RequestCodec, RequestCodecLike, StringCodec,
      StringRequestCodec, decode_args, get_decoded, get_decoded_or_raw, has_decoded, register_input_codec,
      register_request_codec
  late mlserver.codecs.pandas import PandasCodec
  from mlserver.codecs.utils import decode_inference_request, decode_request_input, encode_inference_response,
      encode_response_output
mlserver.codecs.base: from inferstream.codecs import InputCodec, InputCodecLike, RequestCodec, RequestCodecLike,
      register_input_codec, register_request_codec
  from .codecs import _CodecRegistry, _codec_registry, find_input_codec, find_input_codec_by_payload,
      find_input_codec_by_type_hint, find_request_codec, find_request_codec_by_payload,
      find_request_codec_by_type_hint
  no deprecated: a codec overrides encode_output, decode_input and the like
mlserver.codecs.base64: from inferstream.codecs import Base64Codec
mlserver.codecs.datetime: from inferstream.codecs import DatetimeCodec
mlserver.codecs.decorator: from .codecs import PredictFunc, SignatureCodec, _as_list
  from inferstream.codecs import decode_args
mlserver.codecs.errors: from inferstream.errors import CodecError, CodecNotFound, InputsNotFound, OutputNotFound
mlserver.codecs.json: from .json_text import JSONEncoderWithArray, decode_from_bytelike_json_to_dict,
      decode_json_input_or_output, encode_to_json, encode_to_json_bytes
mlserver.codecs.lists: from .codecs import ListElement, ListPayload, as_list, is_list_of
mlserver.codecs.numpy: from inferstream.codecs import NumpyCodec, NumpyRequestCodec
  from inferstream.ext.values import to_datatype, decode_array as _to_ndarray
  from .codecs import convert_nan, to_dtype, _encode_data
mlserver.codecs.pandas: from inferstream.codecs import PandasCodec
mlserver.codecs.string: from inferstream.codecs import StringCodec, StringRequestCodec
  from .codecs import decode_str, encode_str
mlserver.codecs.utils: from .codecs import Codec, InputOrOutput, Parametrised, Tagged, decode_inference_request,
      decode_request_input, encode_inference_response, encode_response_output
  from .codecs import INPUT_PREFIX as DefaultInputPrefix, OUTPUT_PREFIX as DefaultOutputPrefix,
      SingleInputRequestCodec, inject_batch_dimension, _save_decoded
  from inferstream.codecs import DecodedParameterName, get_decoded, get_decoded_or_raw, has_decoded
mlserver.context: from .telemetry import model_context, model_name_var, model_version_var
mlserver.env: from .settings import compute_hash_of_file, compute_hash_of_string
  no Environment: environment_tarball or environment_path in a model's settings names an environment
mlserver.errors: from .errors import InferenceError, ModelLoadError, ModelParametersMissing, ModelUnloadError,
      ModelValidationError
  from inferstream.errors import InvalidModelURI, ModelNotFound, ModelNotReady, ModelError as MLServerError
mlserver.grpc: from mlserver.grpc.server import GRPCServer
mlserver.grpc.converters: from .converters import InferInputTensorConverter, InferOutputTensorConverter,
      InferRequestedOutputTensorConverter, InferTensorContentsConverter, ModelInferRequestConverter,
      ModelInferResponseConverter, ParametersConverter
  from .descriptions import ModelMetadataResponseConverter, RepositoryIndexRequestConverter,
      RepositoryIndexResponseConverter, RepositoryIndexResponseItemConverter, ServerMetadataResponseConverter,
      TensorMetadataConverter
mlserver.grpc.dataplane_pb2: from .messages import {MESSAGES}
mlserver.grpc.dataplane_pb2_grpc: from .stubs import GRPCInferenceServiceServicer, GRPCInferenceServiceStub,
      add_GRPCInferenceServiceServicer_to_server
  no GRPCInferenceService: STUBS
  no GRPC_GENERATED_VERSION, GRPC_VERSION: GRPC
mlserver.grpc.interceptors: no LoggingInterceptor, PromServerInterceptor, wrap_async_iterator_inc_counter: METRICS
mlserver.grpc.logging: from .telemetry import GRPC as logger, GRPC.name as gRPCLoggerName
mlserver.grpc.model_repository: no ModelRepositoryServicer: SERVER
mlserver.grpc.model_repository_pb2: from .messages import {MESSAGES}
mlserver.grpc.model_repository_pb2_grpc: from .stubs import ModelRepositoryServiceServicer,
      ModelRepositoryServiceStub, add_ModelRepositoryServiceServicer_to_server
  no ModelRepositoryService: STUBS
  no GRPC_GENERATED_VERSION, GRPC_VERSION: GRPC
mlserver.grpc.server: no DefaultGrpcWorkers, GRPCServer: SERVER
mlserver.grpc.servicers: no InferenceServicer: SERVER
mlserver.grpc.utils: from .grpc import STATUS_CODE_MAPPING, handle_mlserver_error, handle_mlserver_stream_error,
      to_headers, to_metadata
mlserver.handlers: from mlserver.handlers.dataplane import DataPlane
  from mlserver.handlers.model_repository import ModelRepositoryHandlers
  from inferstream import custom_handler
  from .model import get_custom_handlers
mlserver.handlers.custom: from inferstream import custom_handler
  from .model import CustomHandler, HANDLER_ATTRIBUTE as _CustomHandlerAttr, get_custom_handlers,
      register_custom_handler
mlserver.handlers.dataplane: no DataPlane: mlserver.MLServer serves models, and you can call their methods without a
      server
mlserver.handlers.model_repository: no ModelRepositoryHandlers: SERVER
  no NO_VERSION_KEY: a model without a version has the version None
mlserver.kafka: from mlserver.kafka.server import KafkaServer
mlserver.kafka.errors: from .errors import InvalidMessageHeaders
mlserver.kafka.handlers: no KafkaHandlers: KAFKA
  from .settings import MLSERVER_MODEL_NAME_HEADER, MLSERVER_MODEL_VERSION_HEADER
mlserver.kafka.logging: from .telemetry import KAFKA as logger, KAFKA.name as loggerName
mlserver.kafka.message: no KafkaMessage: KAFKA
mlserver.kafka.server: no KafkaMethodTypes, KafkaServer: KAFKA
mlserver.logging: from .telemetry import LoggerName, ModelLoggerFormatter, apply_logging_file, configure_logger,
      get_log_level, get_logger, logger, HANDLER as _STREAM_HANDLER_NAME
mlserver.metrics: from mlserver.metrics.server import MetricsServer
  late mlserver.metrics.registry import REGISTRY
  from mlserver.metrics.prometheus import configure_metrics
  from mlserver.metrics.context import log, register
mlserver.metrics.context: from .telemetry import SELDON_MODEL_NAME_LABEL, SELDON_MODEL_VERSION_LABEL, log, register,
      _get_labels_from_context, model_name_var, model_version_var
mlserver.metrics.errors: from .telemetry import InvalidModelContext, MetricNotFound
mlserver.metrics.logging: from .telemetry import METRICS as logger, METRICS.name as loggerName
mlserver.metrics.prometheus: from .telemetry import PROMETHEUS_MULTIPROC_DIR, configure_metrics
  no PrometheusEndpoint, stop_metrics: METRICS
mlserver.metrics.registry: from .metrics import MetricsRegistry, REGISTRY
mlserver.metrics.server: no MetricsServer: METRICS
mlserver.middleware: from .stages import InferenceMiddleware, InferenceMiddlewares
mlserver.model: from .model import MLModel
mlserver.parallel: from mlserver.parallel.pool import InferencePool
  from mlserver.parallel.registry import InferencePoolRegistry
  from mlserver.parallel.worker import Worker
  from mlserver.parallel.utils import configure_inference_pool
mlserver.parallel.dispatcher: from .telemetry import QUEUE_METRIC_NAME
  no AsyncResponses, Dispatcher: WORKERS
mlserver.parallel.errors: from .errors import EnvironmentNotFound, WorkerError, WorkerStop
mlserver.parallel.logging: from .telemetry import PARALLEL as logger, PARALLEL.name as gRPCLoggerName
mlserver.parallel.messages: no Message, ModelRequestMessage, ModelResponseMessage, ModelUpdateMessage, ModelUpdateType:
      WORKERS
mlserver.parallel.model: no ModelMethods, ParallelModel: WORKERS
mlserver.parallel.pool: no InferencePool, InferencePoolHook, PredictMethod, WorkerRegistry: WORKERS
mlserver.parallel.registry: no ENV_HASH_ATTR, InferencePoolRegistry: WORKERS
mlserver.parallel.utils: from .settings import configure_inference_pool
  no END_OF_QUEUE, cancel_task, terminate_queue: WORKERS
mlserver.parallel.worker: no IGNORED_SIGNALS, Worker: WORKERS
mlserver.raw: from .codecs import extract_raw, inject_raw, pack, unpack
mlserver.registry: from .settings import ModelInitialiser, ModelRegistryHook, ModelReloadHook, model_initialiser
  no MultiModelRegistry, SingleModelRegistry: mlserver.MLServer keeps the models
mlserver.repository: from mlserver.repository.repository import DEFAULT_MODEL_SETTINGS_FILENAME, ModelRepository,
      SchemalessModelRepository
  late mlserver.repository.factory import ModelRepositoryFactory
mlserver.repository.factory: from .server import ModelRepositoryFactory
mlserver.repository.load: from .settings import load_model_settings
mlserver.repository.repository: from .settings import MODEL_SETTINGS_FILE as DEFAULT_MODEL_SETTINGS_FILENAME
  from inferstream.ext.runtimes import ModelRepository, FolderRepository as SchemalessModelRepository
mlserver.rest: from mlserver.rest.server import RESTServer
mlserver.rest.app: no APIRoute: CUSTOM
  no create_app: SERVER
mlserver.rest.endpoints: no Endpoints, ModelRepositoryEndpoints: SERVER
mlserver.rest.errors: from .rest import APIErrorResponse, handle_mlserver_error
mlserver.rest.logging: from .telemetry import REST as logger, REST.name as loggerName
  no HealthEndpointFilter, disable_health_access_logs: the server logs no health probes
mlserver.rest.openapi: no get_model_schema, get_model_schema_uri, get_openapi_schema: OPENAPI
mlserver.rest.openapi.schema: no MODEL_NAME_PARAMETER, MODEL_VERSION_PARAMETER, get_model_schema, get_model_schema_uri,
      get_openapi_schema: OPENAPI
mlserver.rest.requests: from starlette.requests import Request
mlserver.rest.responses: from .rest import Response, ServerSentEvent
mlserver.rest.server: no RESTServer: SERVER
mlserver.rest.utils: no matches, to_scope: CUSTOM
  no to_status_code: SERVER
mlserver.server: from .server import HANDLED_SIGNALS, MLServer
mlserver.settings: from inferstream.ext.settings import EnvironmentModel as BaseSettings
  from inferstream import ModelParameters, ModelSettings, Settings
  from inferstream.ext.settings import CORSSettings
  from .settings import DEFAULT_ENVIRONMENTS_DIR, DEFAULT_METRICS_DIR, DEFAULT_PARALLEL_WORKERS, ENV_FILE as
      ENV_FILE_SETTINGS, ENV_PREFIX_SETTINGS
  from inferstream.ext.settings import MLSERVER_MODEL_PREFIX as ENV_PREFIX_MODEL_SETTINGS
  from .security import ALLOWED_MODEL_IMPLEMENTATIONS, canonicalize_runtime_import_path, is_valid_runtime_import_path
mlserver.tracing: from .telemetry import get_tracer_provider
mlserver.types: from inferstream.types import {TYPES}
  from .security import RuntimeSecurityMode, RuntimeSecurityResponse
mlserver.types.base: from inferstream.types import BaseModel
mlserver.types.dataplane: from inferstream.types import {TYPES}
  from .security import RuntimeSecurityMode, RuntimeSecurityResponse
mlserver.types.model_repository: from inferstream.types import {TYPES}
mlserver.utils: from .model import AsyncManager, EventLoopBackend, extract_headers, generate_uuid,
      get_normalized_version, get_wrapped_method, insert_headers, install_uvloop_event_loop, schedule_with_callback
  from inferstream.ext.runtimes import get_model_uri, to_absolute_path
mlserver.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_sklearn: from mlserver_sklearn.sklearn import SKLearnModel, STANDS_IN
  from mlserver_sklearn.version import __version__
mlserver_sklearn.sklearn: from .runtimes import PREDICT_FN_KEY, PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT,
      PREDICT_TRANSFORM, SKLearnModel, STANDS_IN, SKLEARN_OUTPUTS as VALID_OUTPUTS, SKLEARN_FILES as
      WELLKNOWN_MODEL_FILENAMES
mlserver_sklearn.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_xgboost: from mlserver_xgboost.xgboost import XGBoostModel, STANDS_IN
  from mlserver_xgboost.version import __version__
mlserver_xgboost.xgboost: from .runtimes import PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT, STANDS_IN, XGBoostModel,
      XGBOOST_OUTPUTS as VALID_OUTPUTS, XGBOOST_FILES as WELLKNOWN_MODEL_FILENAMES
mlserver_xgboost.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_lightgbm: from mlserver_lightgbm.lightgbm import LightGBMModel, STANDS_IN
  from mlserver_lightgbm.version import __version__
mlserver_lightgbm.lightgbm: from .runtimes import LightGBMModel, STANDS_IN, LIGHTGBM_FILES as WELLKNOWN_MODEL_FILENAMES
mlserver_lightgbm.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_catboost: from mlserver_catboost.catboost import CatboostModel, STANDS_IN
  from mlserver_catboost.version import __version__
mlserver_catboost.catboost: from .runtimes import CatboostModel, STANDS_IN, CATBOOST_FILES as WELLKNOWN_MODEL_FILENAMES
mlserver_catboost.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_mlflow: from mlserver_mlflow.runtime import MLflowRuntime, STANDS_IN
  from mlserver_mlflow.version import __version__
mlserver_mlflow.runtime: from .runtimes import MLflowRuntime, STANDS_IN
mlserver_mlflow.version: from inferstream.plugins.mlserver.names import VERSION as __version__
mlserver_onnx: from mlserver_onnx.onnx import OnnxModel, STANDS_IN
  from mlserver_onnx.version import __version__
mlserver_onnx.onnx: from .runtimes import OnnxModel, STANDS_IN, ONNX_OUTPUTS as VALID_OUTPUTS, ONNX_FILES as
      WELLKNOWN_MODEL_FILENAMES
  from .onnx import PREDICT_OUTPUT
mlserver_onnx.version: from inferstream.plugins.mlserver.names import VERSION as __version__
"""
"""Each module with its names, in the form of import statements. Indented lines continue a module.

`late` imports are resolved on first use. `no` lists names that inferstream does not have, with a message or
its key in `SENTENCES`. Targets that begin with a dot are modules of this package.
"""

MODULES = parse_table(TABLE, SENTENCES, __package__)
"""The table as `{module: {name: target}}`. A target is a module that has the name, or `module:object`."""
