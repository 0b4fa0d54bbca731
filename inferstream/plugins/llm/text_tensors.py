"""Tensors that language models declare."""

from inferstream.types import MetadataTensor, Parameters

TEXT = MetadataTensor(name="text", datatype="BYTES", shape=[1])
"""The output of a language model."""


def text_inputs(*names: str) -> list[MetadataTensor]:
    """The inputs of a language model, all of them optional, because one is enough."""
    return [
        MetadataTensor(name=name, datatype="BYTES", shape=[1], parameters=Parameters(optional=True))
        for name in names
    ]
