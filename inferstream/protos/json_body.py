"""The JSON body of a request of tensors, in V2's form or in another."""

from collections.abc import Sequence
from typing import Any

from ..types import MetadataTensor
from ..types.json_numbers import NumbersText
from .generate import is_v2
from .json_arrays import load_exactly, plain
from .json_requests import load_request


class JsonBody:
    """A JSON document of tensors, and its text.

    A long list of numbers is text until the datatype of its tensor is known. In `document` it may stand for `data` of
    V2 and for a field of the document itself. `is_list` recognises it, and `listed` makes a list of it.
    """

    __slots__ = ("document", "text")

    def __init__(self, body: bytes) -> None:
        """Parse a body. Raises InvalidRequest."""
        self.document: Any
        self.document, self.text = load_request(body)

    def is_v2(self, inputs: Sequence[MetadataTensor]) -> bool:
        """Whether it is a V2 request, for a model that declares these inputs."""
        return is_v2(self.document, inputs)

    def exact(self) -> Any:
        """The document, an object, in which integers beyond 64 bits are no floats."""
        return load_exactly(self.document, self.text)

    @staticmethod
    def is_list(value: Any) -> bool:
        """Whether a value of the document is a list, which may be text as yet."""
        return type(value) is NumbersText or isinstance(value, list)

    @staticmethod
    def listed(value: Any, name: str) -> Any:
        """The value of the field `name`, with a list in the place of its text. Raises InvalidRequest."""
        return plain(value, name) if type(value) is NumbersText else value
