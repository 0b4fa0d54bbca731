"""Triton: its repository, Python backend, shared memory and sequences."""

from inferstream.ext import Extension, Position

extension = Extension(
    "triton",
    stages={
        # A request that waits for those before it has no place among the calls that run.
        "sequences": Position("inferstream.dataplane.stages.sequences:sequences", outside="limits"),
    },
    modules={"triton": "inferstream.compat.triton_names"},
)
