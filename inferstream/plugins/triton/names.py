"""Replacements for the names in the Triton Python backend module."""

from inferstream.ext.hosting import parse_table

PRODUCT = "Triton"

VERSION = "2.60.0"
"""The Triton release with which the replacements are compatible."""

SENTENCES = {
    "METRICS": "use inferstream.register and inferstream.log",
    "LOADING": "the routes of /v2/repository load models, and a function with the setting calls uses them",
    "MEMORY": "tensors are in the memory of the processor",
    "TRACE": "the setting tracing_server traces every call",
}

TABLE = """
triton_python_backend_utils: from .tensor import BackendTensor as Tensor, TRITON_STRING_TO_NUMPY,
      deserialize_bytes_tensor, numpy_to_triton_type, serialize_byte_tensor, triton_string_to_numpy,
      triton_to_numpy_type
  from .calls import BackendRequest as InferenceRequest, BackendResponse as InferenceResponse,
      BackendSender as InferenceResponseSender, TritonError, TritonModelException, get_input_tensor_by_name,
      get_output_tensor_by_name
  from .calls import SEQUENCE_START as TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
      SEQUENCE_END as TRITONSERVER_REQUEST_FLAG_SEQUENCE_END, FINAL as TRITONSERVER_RESPONSE_COMPLETE_FINAL,
      RELEASE_ALL as TRITONSERVER_REQUEST_RELEASE_ALL, RELEASE_RESCHEDULE as TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
  from .config import BackendConfig as ModelConfig, get_input_config_by_name, get_output_config_by_name,
      using_decoupled_model_transaction_policy
  from .log import BackendLogger as Logger
  from inferstream.plugins.triton.names import VERSION as __version__
  no Metric, MetricFamily: METRICS
  no MemoryType, PreferredMemory, TRITONSERVER_MEMORY_CPU, TRITONSERVER_MEMORY_GPU: MEMORY
  no InferenceTrace: TRACE
  no load_model, unload_model, is_model_ready: LOADING
"""
"""The replacements, in the same format as in the MLServer table.

Targets that begin with a dot are modules of this package.
"""

MODULES = parse_table(TABLE, SENTENCES, __package__)
"""The table as `{module: {name: target}}`."""
