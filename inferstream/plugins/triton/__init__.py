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
        "log-level": "inferstream.dataplane.live_settings",
        "regions": "inferstream.dataplane.regions",
    },
    rpcs={
        "administration": "inferstream.server.grpc.administration:AdministrationService",
        "shared-memory": "inferstream.server.grpc.administration:SharedMemoryService",
    },
    stream_dialects={"triton": "inferstream.server.grpc.dialects.triton:TritonDialect"},
    stages={
        # A request that waits for those before it has no place among the calls that run.
        "sequences": Position("inferstream.dataplane.stages.sequences:sequences", outside="limits"),
    },
    modules={"triton": "inferstream.compat.triton_names"},
    outputs={"classification": "inferstream.dataplane.classification:classification"},
)
