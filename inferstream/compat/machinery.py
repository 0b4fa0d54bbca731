"""MLServer's machinery by name: for each name that has no equal here, what to use instead."""

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .replaced import Replaced

INFER = "`server infer` asks a server for every request of a file"
SERVER = "mlserver.MLServer serves every protocol"
METRICS = "the server counts calls and serves metrics"
OPENAPI = "the server describes its models at /v2/docs/dataplane.json"
STUBS = "the stubs in mlserver.grpc.dataplane_pb2_grpc call a server"
IMAGE = "`server dockerfile FOLDER` writes the files of an image"
WORKERS = "the server runs worker processes where parallel_workers asks for them"
KAFKA = "kafka_enabled in the settings serves a topic"
BATCHING = "the server batches where max_batch_size and max_batch_time ask for it"
VERSIONS = "a model without a version has the version None"
HEALTH = "the server logs no health probes"
CUSTOM = "@custom_handler adds a route"
GRPC = "grpc.__version__ is the version of the library"
EVENT_LOOP = "mlserver.utils.AsyncManager runs a coroutine"

MACHINERY: dict[str, dict[str, str]] = {
    "mlserver.batch_processing": {
        "FINALIZER_REPORT_FREQUENCY RETRY_SLEEP_TIME TritonRequest consume finalize"
        " infer_result_to_infer_response postprocess_items preprocess_items process_items produce"
        " send_requests setup_logging": INFER,
        "click_async": EVENT_LOOP,
    },
    "mlserver.batching.hooks": {"not_implemented_warning": BATCHING},
    "mlserver.cli.build": {"build_image": "`server build FOLDER --tag TAG` builds an image"},
    "mlserver.cli.constants": {
        "DefaultBaseImage DockerfileName DockerfileTemplate Dockerignore DockerignoreName": IMAGE
    },
    "mlserver.cli.init_project": {"init_cookiecutter_project": "`server init` writes a model folder"},
    "mlserver.cli.main": {"click_async": EVENT_LOOP},
    "mlserver.codecs.base": {"deprecated": "a codec overrides encode_output, decode_input and the like"},
    "mlserver.grpc.dataplane_pb2_grpc": {
        "GRPCInferenceService": STUBS,
        "GRPC_GENERATED_VERSION GRPC_VERSION": GRPC,
    },
    "mlserver.grpc.interceptors": {
        "LoggingInterceptor PromServerInterceptor wrap_async_iterator_inc_counter": METRICS
    },
    "mlserver.grpc.model_repository": {"ModelRepositoryServicer": SERVER},
    "mlserver.grpc.model_repository_pb2_grpc": {
        "ModelRepositoryService": STUBS,
        "GRPC_GENERATED_VERSION GRPC_VERSION": GRPC,
    },
    "mlserver.grpc.server": {"DefaultGrpcWorkers": SERVER},
    "mlserver.grpc.servicers": {"InferenceServicer": SERVER},
    "mlserver.handlers.model_repository": {"NO_VERSION_KEY": VERSIONS},
    "mlserver.kafka.server": {"KafkaMethodTypes": KAFKA},
    "mlserver.metrics.prometheus": {"PrometheusEndpoint stop_metrics": METRICS},
    "mlserver.parallel.dispatcher": {"AsyncResponses": WORKERS},
    "mlserver.parallel.messages": {"Message ModelUpdateType": WORKERS},
    "mlserver.parallel.model": {"ModelMethods": WORKERS},
    "mlserver.parallel.pool": {"InferencePoolHook PredictMethod WorkerRegistry": WORKERS},
    "mlserver.parallel.registry": {"ENV_HASH_ATTR": WORKERS},
    "mlserver.parallel.utils": {"END_OF_QUEUE cancel_task terminate_queue": WORKERS},
    "mlserver.parallel.worker": {"IGNORED_SIGNALS": WORKERS},
    "mlserver.rest.app": {"APIRoute": CUSTOM, "create_app": SERVER},
    "mlserver.rest.endpoints": {"Endpoints ModelRepositoryEndpoints": SERVER},
    "mlserver.rest.openapi": {"get_model_schema get_model_schema_uri get_openapi_schema": OPENAPI},
    "mlserver.rest.openapi.schema": {
        "MODEL_NAME_PARAMETER MODEL_VERSION_PARAMETER get_model_schema get_model_schema_uri"
        " get_openapi_schema": OPENAPI
    },
    "mlserver.rest.logging": {"HealthEndpointFilter disable_health_access_logs": HEALTH},
    "mlserver.rest.utils": {"matches to_scope": CUSTOM, "to_status_code": SERVER},
}
"""Every name that a module of MLServer 1.7.1 defines and nothing here answers to, with what to use instead.

Modules of `compat/mlserver` that hold a `Replaced` of their own are not repeated here.
"""

LOGGERS = {
    "mlserver.grpc.logging": "gRPCLoggerName",
    "mlserver.kafka.logging": "loggerName",
    "mlserver.metrics.logging": "loggerName",
    "mlserver.parallel.logging": "gRPCLoggerName",
    "mlserver.rest.logging": "loggerName",
}
"""Modules that hold a logger, and under which constant its name."""

PACKAGES = ("mlserver.rest.openapi",)


@lru_cache(1024)
def stand_in(module: str, name: str) -> type[Replaced] | None:
    """The class that stands for a name of the machinery; None for a name that MLServer does not have."""
    for names, instead in MACHINERY.get(module, {}).items():
        if name in names.split():
            return type(name, (Replaced,), {"__module__": module, "instead": instead})
    return None


def stand_ins(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose other names are real."""

    def find(name: str) -> Any:
        found = stand_in(module, name)
        if found is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return found

    return find


class MachineryFinder(MetaPathFinder, Loader):
    """Finds the modules that hold nothing but machinery, for which there are no files."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MACHINERY and fullname not in LOGGERS:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__doc__ = "A part of MLServer's machinery."
        if name in LOGGERS:
            logger = name.removesuffix(".logging")
            vars(module).update({"logger": logging.getLogger(logger), LOGGERS[name]: logger})
        vars(module)["__getattr__"] = stand_ins(name)
