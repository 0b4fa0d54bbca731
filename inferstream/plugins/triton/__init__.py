"""Triton compatibility: model repositories, the Python backend, shared memory and sequences."""

from inferstream.ext import Artefact, Extension, Position

extension = Extension(
    "triton",
    settings="inferstream.plugins.triton.settings:TritonSettings",
    model_settings="inferstream.plugins.triton.settings:SequenceSettings",
    requires=("frameworks", "otel"),
    artefacts=(
        Artefact(
            "inferstream.plugins.triton.model.PythonModel",
            others=(
                "inferstream.plugins.triton.reshape.ReshapedOnnx",
                "inferstream.plugins.triton.reshape.ReshapedTorch",
            ),
            names=("config.pbtxt",),
            role="settings",
            settings="inferstream.plugins.triton.pbtxt:read_settings",
            data=(".pbtxt",),
        ),
    ),
    actions={"shared-memory": "inferstream.plugins.triton.actions:SHARED_MEMORY"},
    dialects={
        "administration": "inferstream.plugins.triton.administration:Administration",
        "system-shared-memory": "inferstream.plugins.triton.shared_memory:SystemSharedMemory",
    },
    messages={
        "log-level": "inferstream.plugins.triton.live_settings:build_live_settings",
        "regions": "inferstream.plugins.triton.regions:build_regions",
    },
    rpcs={
        "administration": "inferstream.plugins.triton.rpcs:AdministrationService",
        "shared-memory": "inferstream.plugins.triton.rpcs:SharedMemoryService",
    },
    stream_dialects={"triton": "inferstream.plugins.triton.stream_dialect:TritonDialect"},
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
        "system_shared_memory": "inferstream.plugins.triton.regions:shares_memory",
    },
    stages={
        # Outside the deadline, so that it does not interrupt writes. Middleware can read all tensors.
        "regions": Position("inferstream.plugins.triton.region_use:add_region_stage", outside="deadline"),
        # Outside the limits, so that a request that waits for its sequence does not occupy a slot.
        "sequences": Position("inferstream.plugins.triton.sequences:add_sequence_stage", outside="limits"),
    },
    modules={"triton": "inferstream.plugins.triton.names"},
    outputs={"classification": "inferstream.plugins.triton.classification:build_classification"},
)
