"""TorchServe compatibility: predictions, model archives and replacements for its modules."""

from inferstream.ext import Artefact, Extension

extension = Extension(
    "torchserve",
    artefacts=(
        Artefact(
            "inferstream.plugins.torchserve.model.ArchiveModel",
            others=("inferstream.plugins.torchserve.model.StreamingArchiveModel",),
            suffixes=(".mar",),
            role="archive",
            settings="inferstream.plugins.torchserve.mar:read_settings",
        ),
    ),
    dialects={
        "torchserve": "inferstream.plugins.torchserve.dialect:TorchServe",
    },
    modules={"torchserve": "inferstream.plugins.torchserve.names"},
)
