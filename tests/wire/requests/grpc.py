"""gRPC: every RPC of every service, in both dialects of streams."""

import struct
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from tritonclient.grpc import service_pb2 as pb

from ..rpc import HEALTH, INFERENCE, LEGACY, Read, Rpc

FLOATS = struct.pack("<2f", 1.0, 2.5)
TEXTS = struct.pack("<I", 2) + b"hi"
MLSERVER = (("x-stream-dialect", "mlserver"),)
TRITON = (("x-stream-dialect", "triton"),)
FIELDS = {
    "BOOL": ("bool_contents", [True, False]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 65535]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-1, 1]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 2**63 - 1]),
    "FP32": ("fp32_contents", [0.1, 2.5]),
    "FP64": ("fp64_contents", [0.1, 2.5]),
    "BYTES": ("bytes_contents", ["ü".encode(), b"\xff"]),
}


def packed(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def infer(
    model: str,
    *,
    raw: bool = False,
    kind: str = "FP32",
    name: str = "x",
    id: str = "i",
    version: str = "",
    shape: list[int] | None = None,
    outputs: list[str] | None = None,
    content_type: str | None = None,
    raws: list[bytes] | None = None,
    **parameters: Any,
) -> bytes:
    """A ModelInferRequest of two numbers, or what `kind` has, with parameters."""
    made = pb.ModelInferRequest(model_name=model, model_version=version, id=id)
    tensor = made.inputs.add(name=name, datatype=kind, shape=[2] if shape is None else shape)
    if raw or raws is not None:
        made.raw_input_contents.extend(raws or [FLOATS])
    elif kind in FIELDS:
        field, values = FIELDS[kind]
        getattr(tensor.contents, field).extend(values)
    if content_type is not None:
        tensor.parameters["content_type"].string_param = content_type
    for output in outputs or []:
        made.outputs.add(name=output)
    fields = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    for key, value in parameters.items():
        setattr(made.parameters[key], fields[type(value)], value)
    return packed(made)


def text(model: str, **options: Any) -> bytes:
    """A ModelInferRequest of a text."""
    made = pb.ModelInferRequest.FromString(infer(model, kind="none", **options))
    made.inputs[0].MergeFrom(pb.ModelInferRequest.InferInputTensor(name="", datatype="BYTES"))
    made.inputs[0].name = "text"
    made.inputs[0].shape[:] = [1]
    made.inputs[0].contents.bytes_contents.append(b"hi")
    return packed(made)


def call(name: str, method: str, message: Message | bytes, **options: Any) -> Rpc:
    return Rpc(name, method, message if isinstance(message, bytes) else packed(message), **options)


def unary(name: str, sent: bytes, **options: Any) -> Rpc:
    return Rpc(f"infer {name}", "ModelInfer", sent, **options)


def stream(name: str, *sent: bytes | Read, **options: Any) -> Rpc:
    return Rpc(f"stream {name}", "ModelStreamInfer", [*sent], **options)


def both(name: str, *sent: bytes | Read, **options: Any) -> list[Rpc]:
    return [
        stream(f"{name}, mlserver", *sent, metadata=MLSERVER, **options),
        stream(f"{name}, triton", *sent, metadata=TRITON, **options),
    ]


def mode(word: str) -> bytes:
    return infer("failing", mode=word)


SERVER = [
    call("ServerLive", "ServerLive", pb.ServerLiveRequest()),
    call("ServerReady", "ServerReady", pb.ServerReadyRequest()),
    call("ServerMetadata", "ServerMetadata", pb.ServerMetadataRequest()),
    call("RuntimeSecurity", "RuntimeSecurity", b""),
    call("ServerLive with bytes that are none", "ServerLive", b"\xff"),
    *(
        case
        for name, version in (
            ("echo", ""),
            ("declared", ""),
            ("typed", ""),
            ("text", ""),
            ("arrays", "v1"),
            ("versions", ""),
            ("versions", "2"),
            ("versions", "3"),
            ("names/with space ü", ""),
            ("nobody", ""),
            ("", ""),
        )
        for case in (
            call(
                f"ModelReady {name} {version}", "ModelReady", pb.ModelReadyRequest(name=name, version=version)
            ),
            call(
                f"ModelMetadata {name} {version}",
                "ModelMetadata",
                pb.ModelMetadataRequest(name=name, version=version),
            ),
        )
    ),
    call("ModelMetadata with bytes that are none", "ModelMetadata", b"\xff"),
    call("unknown RPC", "ModelExplain", b""),
    call("unknown service", "/nowhere.Service/Call", b""),
    call("ModelConfig", "ModelConfig", pb.ModelConfigRequest(name="echo")),
    call("ModelStatistics of nobody", "ModelStatistics", pb.ModelStatisticsRequest(name="nobody")),
    # The order of a map's entries on the wire is open, so the answers with settings are not recorded.
    call(
        "LogSettings of no setting",
        "LogSettings",
        pb.LogSettingsRequest(settings={"log_all": pb.LogSettingsRequest.SettingValue(bool_param=True)}),
    ),
    call("TraceSetting of nobody", "TraceSetting", pb.TraceSettingRequest(model_name="nobody")),
    call("Status of shared memory", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest()),
    call(
        "Registered shared memory",
        "SystemSharedMemoryRegister",
        pb.SystemSharedMemoryRegisterRequest(name="r", key="/none", byte_size=8),
    ),
    call(
        "Unregistered shared memory",
        "SystemSharedMemoryUnregister",
        pb.SystemSharedMemoryUnregisterRequest(name="r"),
    ),
    *(
        call(
            f"CUDA {verb}", f"CudaSharedMemory{verb}", getattr(pb, f"CudaSharedMemory{verb}Request")(name="r")
        )
        for verb in ("Status", "Register", "Unregister")
    ),
]

UNARY = [
    *(unary(f"typed {kind}", infer("echo", kind=kind)) for kind in FIELDS),
    unary("raw", infer("echo", raw=True)),
    unary("raw FP16", infer("echo", kind="FP16", raws=[b"\0\x3c\0\x40"])),
    unary("raw BF16", infer("echo", kind="BF16", raws=[b"\x80\x3f\0\x40"])),
    unary("raw texts", infer("echo", kind="BYTES", raws=[TEXTS * 2])),
    unary("raw through numpy", infer("arrays", raw=True)),
    unary("typed through numpy", infer("arrays")),
    unary("FP16 typed", infer("echo", kind="FP16")),
    unary("no id", infer("echo", id="")),
    unary("id by metadata", infer("mirror", id=""), metadata=(("x-request-id", "by-metadata"),)),
    unary("metadata", infer("mirror"), metadata=(("x-custom", "custom"),)),
    unary("parameters", infer("mirror", a=1, b=0.5, c=True, d="text")),
    *(unary(f"parameter {word}", infer("mirror", say=word)) for word in ("number", "share", "flag")),
    unary("output chosen", infer("echo", outputs=["x"])),
    unary("output unknown", infer("echo", outputs=["z"])),
    unary("output twice", infer("echo", outputs=["x", "x"])),
    unary("version", infer("versions", version="2")),
    unary("newest version", infer("versions")),
    unary("unknown version", infer("versions", version="3")),
    unary("unknown model", infer("nobody")),
    unary("no model", infer("")),
    unary("batched", infer("batched", shape=[2, 1])),
    unary("legacy", infer("legacy")),
    unary("in a worker", infer("worker")),
    unary("steps", infer("steps")),
    unary("steps fail", infer("steps", fail_at=2)),
    unary("steps refused", infer("steps", refuse=True)),
    unary("text", text("text")),
    unary("content type", infer("echo", kind="BYTES", content_type="str")),
    unary("cached", infer("cached", id="one")),
    unary("cached again", infer("cached", id="two")),
    unary("model headers", infer("headed")),
    unary("priority", infer("echo"), metadata=(("x-request-priority", "1"),)),
    unary("bad priority", infer("echo"), metadata=(("x-request-priority", "12"),)),
    unary("bad priority parameter", infer("echo", priority=12)),
    unary("bytes that are none", b"\xff"),
    unary("empty", b""),
    unary("unknown datatype", infer("echo", kind="FP31")),
    unary("wrong count", infer("echo", shape=[3])),
    unary("negative shape", infer("echo", shape=[-1])),
    unary("raw too short", infer("echo", raws=[FLOATS[:4]])),
    unary("raw too many", infer("echo", raws=[FLOATS, FLOATS])),
    unary("raw broken texts", infer("echo", kind="BYTES", raws=[TEXTS[:-1]])),
    unary("long id", infer("echo", id="i" * 1025)),
    unary("declared wrong datatype", infer("declared", name="a")),
    unary("strict missing", infer("strict", name="b", kind="BYTES", shape=[2])),
    unary("typed signature missing", infer("typed", name="numbers")),
    *(
        unary(f"model fails: {word}", mode(word))
        for word in ("value", "model", "say", "none", "count", "type", "negative", "range", "nan")
    ),
    unary("model only streams", infer("stream")),
    unary("model too slow", infer("impatient")),
    unary("deadline", infer("slow"), timeout=0.3, details=False),
    unary("timeout parameter", infer("slow", timeout=100_000)),
    unary("queue full", infer("holding"), while_open=infer("holding")),
    unary("gzip", infer("echo"), compression=grpc.Compression.Gzip),
    unary("deflate", infer("echo"), compression=grpc.Compression.Deflate),
    unary("too large", infer("echo", raws=[bytes(300_000)]), details=False),
]

STREAMS = [
    *both("items", infer("stream")),
    *both("items raw", infer("stream", raw=True)),
    *both("no id", infer("stream", id="")),
    *both("no item", infer("stream", items=0)),
    *both("of many", infer("stream", items=20)),
    *both("of a version", infer("versions", version="2")),
    *both("of a blocking model", infer("blocking-stream")),
    *both("of steps", infer("steps")),
    *both("of steps that fail", infer("steps", fail_at=2)),
    *both("in a worker", infer("worker")),
    *both("failure before the first", infer("stream", fail_at=0)),
    *both("failure after the first", infer("stream", fail_at=1)),
    *both("refusal before the first", infer("stream", refuse_at=0)),
    *both("refusal after the first", infer("stream", refuse_at=1)),
    *both("bad item", infer("stream", bad_at=1)),
    *both("model headers", infer("headed")),
    *both("unknown model", infer("nobody")),
    *both("unknown version", infer("versions", version="3")),
    *both("model that only predicts", infer("echo")),
    *both(
        "sum of three in turn",
        infer("running-sum"),
        Read(1),
        infer("running-sum"),
        Read(2),
        infer("running-sum"),
    ),
    *both("bad first", infer("echo", shape=[3])),
    *both("bad bytes first", b"\xff"),
    *both("bad bytes later", infer("running-sum"), Read(1), b"\xff"),
    *both("bad priority", infer("stream", priority=12)),
    *both("nothing"),
    *both("model too slow", infer("impatient")),
    *both("timeout parameter", infer("waiting", timeout=1_000_000)),
    *both("cancelled", infer("waiting"), stop_after=1, details=False),
    *both("queue full", infer("holding"), while_open=infer("holding")),
    *both("gzip", infer("stream"), compression=grpc.Compression.Gzip),
    stream(
        "of a sum that ends badly, mlserver",
        infer("running-sum"),
        Read(1),
        infer("running-sum", shape=[3]),
        metadata=MLSERVER,
    ),
    stream(
        "of a sum raw, mlserver",
        infer("running-sum", raw=True),
        Read(1),
        infer("running-sum", raw=True),
        metadata=MLSERVER,
    ),
    stream(
        "of a sum with another id, mlserver",
        infer("running-sum"),
        Read(1),
        infer("running-sum", id="j"),
        metadata=MLSERVER,
    ),
    stream("by default", infer("stream")),
    stream("by raw contents", infer("stream", raw=True)),
    stream("by content type", infer("stream", content_type="np", raw=True)),
    stream("by a triton parameter", infer("stream", triton_enable_empty_final_response=True)),
    stream("by sequence", infer("stream", sequence_id=1)),
    stream("by the model's setting", infer("triton-stream")),
    stream("by the word v2", infer("stream", raw=True), metadata=(("x-stream-dialect", "v2"),)),
    stream("unknown dialect", infer("stream"), metadata=(("x-stream-dialect", "esperanto"),)),
    stream("empty final, triton", infer("stream", triton_enable_empty_final_response=True), metadata=TRITON),
    stream(
        "no empty final, triton", infer("stream", triton_enable_empty_final_response=False), metadata=TRITON
    ),
    stream(
        "empty final of a single answer, triton",
        infer("echo", triton_enable_empty_final_response=True),
        metadata=TRITON,
    ),
    stream("unknown parameter, triton", infer("stream", triton_x=True), metadata=TRITON),
    stream(
        "single answers in order, triton",
        infer("echo", id="1"),
        mode("model"),
        infer("echo", id="3"),
        infer("nobody", id="4"),
        infer("echo", id="5"),
        metadata=TRITON,
    ),
    stream(
        "streams in turn, triton", infer("stream", id="1"), Read(3), infer("stream", id="2"), metadata=TRITON
    ),
    stream(
        "fatal, triton",
        infer("echo", id="1"),
        Read(1),
        mode("model"),
        metadata=(("triton_grpc_error", "true"),),
    ),
    stream(
        "not fatal, triton", mode("model"), Read(1), infer("echo"), metadata=(("triton_grpc_error", "false"),)
    ),
    stream("deadline, mlserver", infer("waiting"), metadata=MLSERVER, timeout=1, details=False),
]

REPOSITORY = [
    call("index", "RepositoryIndex", pb.RepositoryIndexRequest()),
    call("index of those ready", "RepositoryIndex", pb.RepositoryIndexRequest(ready=True)),
    call("load", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="spare")),
    call(
        "load by the other name",
        "RepositoryModelLoad",
        pb.RepositoryModelLoadRequest(repository_name="spare"),
    ),
    call("infer with it", "ModelInfer", infer("spare")),
    call("unload", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="spare")),
    call("ready without it", "ModelReady", pb.ModelReadyRequest(name="spare")),
    call("infer without it", "ModelInfer", infer("spare")),
    call("unload again", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="spare")),
    call("load unknown", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="nobody")),
    call("unload unknown", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="nobody")),
    call("load no name", "RepositoryModelLoad", pb.RepositoryModelLoadRequest()),
    call(
        "load with parameters",
        "RepositoryModelLoad",
        pb.RepositoryModelLoadRequest(
            model_name="spare", parameters={"config": pb.ModelRepositoryParameter(string_param="{}")}
        ),
    ),
    call("load broken", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="broken")),
    call("server ready with broken", "ServerReady", pb.ServerReadyRequest()),
    call("health with broken", f"/{HEALTH}/Check", HealthCheckRequest()),
    call("infer with broken", "ModelInfer", infer("broken")),
    call("metadata of broken", "ModelMetadata", pb.ModelMetadataRequest(name="broken")),
    *both("with broken", infer("broken")),
    call("unload broken", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="broken")),
    call("old index", f"/{LEGACY}/RepositoryIndex", pb.RepositoryIndexRequest()),
    call("old load", f"/{LEGACY}/RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="spare")),
    call(
        "old unload", f"/{LEGACY}/RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="spare")
    ),
]

STANDARD = [
    call("health", f"/{HEALTH}/Check", HealthCheckRequest()),
    call("health of the service", f"/{HEALTH}/Check", HealthCheckRequest(service=INFERENCE)),
    call("health of nobody", f"/{HEALTH}/Check", HealthCheckRequest(service="nobody")),
    call("health list", f"/{HEALTH}/List", b"", unordered=True),
    *(
        Rpc(
            f"health watch of {name}",
            f"/{HEALTH}/Watch",
            [packed(HealthCheckRequest(service=name))],
            stop_after=1,
            details=False,
        )
        for name in ("", INFERENCE, "nobody")
    ),
    *(
        Rpc(
            f"reflection {version}: {field} {value}",
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            [packed(ServerReflectionRequest(host="here", **{field: value}))],
        )
        for version in ("v1", "v1alpha")
        for field, value in (
            ("list_services", ""),
            ("file_containing_symbol", INFERENCE),
            ("file_containing_symbol", f"{INFERENCE}.ModelInfer"),
            ("file_containing_symbol", HEALTH),
            ("file_containing_symbol", "nobody"),
            ("file_by_filename", "nobody.proto"),
            ("all_extension_numbers_of_type", "inference.ModelInferRequest"),
        )
    ),
    Rpc(
        "reflection of two",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        [packed(ServerReflectionRequest(list_services="")), packed(ServerReflectionRequest())],
    ),
]

CASES = [*SERVER, *UNARY, *STREAMS, *STANDARD, *REPOSITORY]
