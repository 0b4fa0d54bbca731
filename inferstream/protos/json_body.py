"""A JSON request body with tensors, in V2 or another format."""

from collections.abc import Sequence
from typing import Any

from ..types import MetadataTensor
from ..types.json_numbers import NumbersText
from .generate import is_v2
from .json_arrays import load_exactly, to_objects
from .json_requests import load_request


class JsonBody:
    """A parsed JSON document with tensors, and its JSON text.

    A long list of numbers stays unparsed until the datatype of its tensor is known. In `document`, it can be
    V2 `data` or a top-level field. Use `is_list` to recognise it and `listed` to convert it to a list.
    """

    __slots__ = ("document", "text")

    def __init__(self, body: bytes) -> None:
        """Parse a body. Raises InvalidRequest."""
        self.document: Any
        self.document, self.text = load_request(body)

    def is_v2(self, inputs: Sequence[MetadataTensor]) -> bool:
        """Whether this is a V2 request, for a model that declares these inputs."""
        return is_v2(self.document, inputs)

    def exact(self) -> Any:
        """Return the document, an object, in which integers beyond 64 bits are exact instead of floats."""
        return load_exactly(self.document, self.text)

    @staticmethod
    def is_list(value: Any) -> bool:
        """Whether a value of the document is a list, parsed or unparsed."""
        return type(value) is NumbersText or isinstance(value, list)

    @staticmethod
    def listed(value: Any, name: str) -> Any:
        """Return the value of the field `name`, parsed if it is an unparsed list. Raises InvalidRequest."""
        return to_objects(value, name) if type(value) is NumbersText else value
