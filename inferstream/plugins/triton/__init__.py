"""Triton: its repository, Python backend, shared memory and sequences."""

from inferstream.ext import Extension

extension = Extension(
    "triton",
    modules={"triton": "inferstream.compat.triton_names"},
    outputs={"classification": "inferstream.dataplane.classification:classification"},
)
