"""Triton: its repository, Python backend, shared memory and sequences."""

from inferstream.ext import Extension

extension = Extension(
    "triton",
    dialects={
        "administration": "inferstream.server.rest.dialects.administration:Administration",
        "system-shared-memory": "inferstream.server.rest.dialects.shared_memory:SystemSharedMemory",
    },
    rpcs={
        "administration": "inferstream.server.grpc.administration:AdministrationService",
        "shared-memory": "inferstream.server.grpc.administration:SharedMemoryService",
    },
    stream_dialects={"triton": "inferstream.server.grpc.dialects.triton:TritonDialect"},
    modules={"triton": "inferstream.compat.triton_names"},
)
