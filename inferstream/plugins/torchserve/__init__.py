"""TorchServe: its predictions, its archives and the names of its modules."""

from inferstream.ext import Extension

extension = Extension(
    "torchserve",
    dialects={
        "torchserve": "inferstream.compat.torchserve.dialect:TorchServe",
    },
    modules={"torchserve": "inferstream.compat.torchserve_names"},
)
