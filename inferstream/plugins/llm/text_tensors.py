"""Input and output tensors of language models."""

from inferstream.types import MetadataTensor, Parameters

TEXT = MetadataTensor(name="text", datatype="BYTES", shape=[1])
"""The output of a language model."""


def text_inputs(*names: str) -> list[MetadataTensor]:
    """Return the inputs of a language model. All are optional, because one of them is enough."""
    return [
        MetadataTensor(name=name, datatype="BYTES", shape=[1], parameters=Parameters(optional=True))
        for name in names
    ]
