"""Replacements for the names in BlazeRPC modules."""

from inferstream.ext.hosting import parse_table

PRODUCT = "BlazeRPC"

VERSION = "2.2.1"
"""The compatible BlazeRPC release."""

SENTENCES = {
    "APP": "`await app.serve()` and `server start module:app` serve an app",
    "TEST": "`inferstream.testing.run(app)` serves an app in a test, without a port",
    "TYPED": "the server builds the messages of an app when it loads it, and `server proto` writes them",
    "BATCHING": "the server batches an app with enable_batching by itself",
    "RUNS": "the server runs the functions of an app",
    "NUMBERS": "a function gets and returns NumPy arrays",
}

ERRORS = "BlazeRPCError, ConfigurationError, InferenceError, ModelNotFoundError, SerializationError, ValidationError"

TABLE = f"""
blazerpc: from blazerpc.app import BlazeApp
  late blazerpc.client import BlazeClient
  late blazerpc.jsonrpc_client import JsonRpcClient
  from blazerpc.context import Context, Depends
  from blazerpc.exceptions import {ERRORS}
  from blazerpc.types import TensorInput, TensorOutput
  from inferstream.plugins.blazerpc.names import VERSION as __version__
blazerpc.app: from .app import BlazeApp
blazerpc.cli:
blazerpc.cli.main: no app, serve: `server start module:app` takes the flags of `blaze serve`
  no proto: `server proto module:app` takes the flags of `blaze proto`
blazerpc.cli.proto: no export_proto: `server proto module:app` writes the file
blazerpc.cli.reload: no run_with_reload: `server start module:app --reload`
blazerpc.cli.serve: no load_app: `server start module:app` imports an app
blazerpc.client: from .client import BlazeClient
  from .registry import SERVICE as SERVICE_NAME
blazerpc.codegen:
blazerpc.codegen.invoke: no invoke_model, invoke_streaming_model, resolve_deps: RUNS
blazerpc.codegen.jsonrpc_handler: from .errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST,
      METHOD_NOT_FOUND, PARSE_ERROR
  no JsonRpcDispatcher: TEST
blazerpc.codegen.proto: no ProtoGenerator: TYPED
blazerpc.codegen.proto_types: no build_message_classes: TYPED
blazerpc.codegen.servicer: no InferenceServicer, build_servicer: TEST
blazerpc.context: from .context import Context, Depends
  from inferstream import State as AppState
blazerpc.contrib:
blazerpc.contrib.onnx: from .onnx import ONNXModel
blazerpc.contrib.pytorch: from .pytorch import numpy_to_torch, torch_model, torch_to_numpy
blazerpc.contrib.tensorflow: from .tensorflow import numpy_to_tf, tf_model, tf_to_numpy
blazerpc.decorators:
blazerpc.exceptions: from .errors import {ERRORS}
blazerpc.jsonrpc_client: from .jsonrpc import JsonRpcClient
blazerpc.runtime:
blazerpc.runtime.batcher: no BatchItem, Batcher: BATCHING
blazerpc.runtime.executor: no ModelExecutor: RUNS
blazerpc.runtime.json_serialization: from .jsonrpc import is_tensor_json, tensor_from_json
  from inferstream.ext.values import array_as_object as tensor_to_json
  no json_to_python, python_to_json: NUMBERS
blazerpc.runtime.registry: from .registry import ModelInfo, ModelRegistry
blazerpc.runtime.serialization: no TensorProto, deserialize_tensor, proto_to_python, python_to_proto, serialize_tensor:
      NUMBERS
blazerpc.server:
blazerpc.server.grpc: no GRPCServer, RawCodec: APP
blazerpc.server.health: no build_health_service: APP
blazerpc.server.jsonrpc: no JsonRpcServer: APP
blazerpc.server.middleware: from .middleware import ExceptionMiddleware, LoggingMiddleware, MetricsMiddleware,
      Middleware, OTelMetricsMiddleware, RequestInfo, ResponseInfo, TransportLoggingMiddleware,
      TransportMetricsMiddleware, TransportMiddleware
blazerpc.server.reflection: no build_reflection_service: APP
blazerpc.types: from inferstream import TensorInput, TensorOutput
  from inferstream.ext.values import TensorHint as _TensorType
  no DTYPE_MAP, PYTHON_TYPE_MAP, extract_type_info: TYPED
grpclib: from grpclib.const import Status
  from grpclib.exceptions import GRPCError
grpclib.const: from .grpclib import Status
grpclib.events: from .grpclib import RecvRequest, SendTrailingMetadata
grpclib.exceptions: from .grpclib import GRPCError
"""
"""Each module with its names, in the format of the MLServer table.

Targets that begin with a dot are modules of this package.

BlazeRPC middleware raises errors of grpclib. An installed grpclib takes precedence over the replacement.
"""

MODULES = parse_table(TABLE, SENTENCES, __package__)
"""The table as `{module: {name: target}}`."""
