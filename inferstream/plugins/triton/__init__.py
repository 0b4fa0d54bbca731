"""Triton: its repository, Python backend, shared memory and sequences."""

from inferstream.ext import Extension

extension = Extension(
    "triton",
    settings="inferstream.plugins.triton.settings:TritonSettings",
    modules={"triton": "inferstream.compat.triton_names"},
)
