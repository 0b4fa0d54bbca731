"""The facet: the input of a model that takes text."""

from dataclasses import dataclass

from inferstream import ModelSettings
from inferstream.ext.runtimes import Signature


@dataclass(frozen=True)
class TextInput:
    name: str


def find_text_input(signature: Signature, settings: ModelSettings) -> TextInput | None:
    for tensor in signature.inputs or ():
        if tensor.parameters is not None and tensor.parameters.content_type == "str":
            return TextInput(tensor.name)
    return None
