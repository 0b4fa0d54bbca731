"""TorchServe: its predictions, its archives and the names of its modules."""

from inferstream.ext import Artefact, Extension

extension = Extension(
    "torchserve",
    artefacts=(
        Artefact(
            "inferstream.compat.torchserve.model.ArchiveModel",
            others=("inferstream.compat.torchserve.model.StreamingArchiveModel",),
            suffixes=(".mar",),
            role="archive",
            settings="inferstream.repository.mar:settings_of",
        ),
    ),
    dialects={
        "torchserve": "inferstream.compat.torchserve.dialect:TorchServe",
    },
    modules={"torchserve": "inferstream.compat.torchserve_names"},
)
