"""Triton: its repository, Python backend, shared memory and sequences."""

from inferstream.ext import Artefact, Extension, Position

extension = Extension(
    "triton",
    settings="inferstream.plugins.triton.settings:TritonSettings",
    model_settings="inferstream.plugins.triton.settings:SequenceSettings",
    requires=("frameworks", "otel"),
    artefacts=(
        Artefact(
            "inferstream.compat.triton.model.PythonModel",
            others=(
                "inferstream.compat.triton.reshape.ReshapedOnnx",
                "inferstream.compat.triton.reshape.ReshapedTorch",
            ),
            names=("config.pbtxt",),
            role="settings",
            settings="inferstream.repository.pbtxt:settings_of",
            data=(".pbtxt",),
        ),
    ),
    dialects={
        "administration": "inferstream.server.rest.dialects.administration:Administration",
        "system-shared-memory": "inferstream.server.rest.dialects.shared_memory:SystemSharedMemory",
    },
    messages={
        "log-level": "inferstream.dataplane.live_settings:build_live_settings",
        "regions": "inferstream.dataplane.regions:build_regions",
    },
    rpcs={
        "administration": "inferstream.server.grpc.administration:AdministrationService",
        "shared-memory": "inferstream.server.grpc.administration:SharedMemoryService",
    },
    stream_dialects={"triton": "inferstream.server.grpc.dialects.triton:TritonDialect"},
    references={
        "shared_memory_region": "Tensors in shared memory are for single requests of V2 over REST, and for gRPC, on a "
        'server that has the extension "system_shared_memory".'
    },
    proto_files={"grpc_service.proto": "inferstream.plugins.triton.proto_file:grpc_service"},
    protocol_extensions={
        "classification": "inferstream.plugins.triton.protocol:has_always",
        "logging": "inferstream.plugins.triton.protocol:has_always",
        "model_configuration": "inferstream.plugins.triton.protocol:has_always",
        "sequence": "inferstream.plugins.triton.protocol:has_with_one_front_end",
        "sequence(string_id)": "inferstream.plugins.triton.protocol:has_with_one_front_end",
        "statistics": "inferstream.plugins.triton.protocol:has_always",
        "system_shared_memory": "inferstream.dataplane.regions:shares_memory",
    },
    stages={
        # Middleware has the values of all tensors, and a deadline does not cut off what is written.
        "regions": Position("inferstream.dataplane.region_use:regions", outside="deadline"),
        # A request that waits for those before it has no place among the calls that run.
        "sequences": Position("inferstream.dataplane.stages.sequences:sequences", outside="limits"),
    },
    modules={"triton": "inferstream.compat.triton_names"},
    outputs={"classification": "inferstream.dataplane.classification:classification"},
)
