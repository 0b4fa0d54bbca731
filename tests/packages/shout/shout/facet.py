"""What the package knows of a model: the input that takes a text."""

from inferstream import ModelSettings
from inferstream.ext.runtimes import Signature
from inferstream.types import MetadataTensor


class Voice:
    def __init__(self, input: str) -> None:
        self.input = input


def voice(signature: Signature, settings: ModelSettings) -> Voice | None:
    """The voice of a model that declares one text, or declares nothing; None for another model."""
    if signature.inputs is None:
        return Voice("text")
    texts = [tensor.name for tensor in signature.inputs if is_text(tensor)]
    return Voice(texts[0]) if len(texts) == 1 else None


def is_text(tensor: MetadataTensor) -> bool:
    return tensor.parameters is not None and tensor.parameters.content_type == "str"
