"""Counts what a request holds in its tensors: elements of BYTES, the JSON in them, and numbers that become a list.

A body in JSON is counted before it is parsed. Elements of raw tensors and texts within JSON are not, and each byte
of them can become an object of 60 bytes.
"""

import asyncio
from collections.abc import AsyncIterator
from math import prod
from typing import Any, Self

from ..errors import InvalidRequest
from ..protos.json_checks import PIECE, JsonLimits, TextCounter
from ..signature import Signature
from ..text.inputs import MESSAGES, RESPONSE_FORMAT, TOOLS
from ..types import InferenceRequest, MetadataTensor, RequestInput

LARGE = 64 * 1024
"""Bytes that are counted on the event loop, in at most five milliseconds. More are counted in a thread."""

LENGTH = 4
"""Bytes before each element of a raw BYTES tensor."""


class Counts:
    """The counts of the requests to one model, whose inputs `signature` describes."""

    def __init__(self, limits: JsonLimits, signature: Signature) -> None:
        self._limits = limits
        self._raw = LENGTH * (limits.values - 1)
        """Bytes behind the first element that hold no element too many."""
        self._text = min(limits.depth, 2 * limits.values, limits.size)
        """Bytes that no limit can be exceeded with."""
        inputs = [*(signature.inputs or ()), *signature.described]
        self._json = {tensor.name for tensor in inputs if tensor.datatype == "BYTES" and _holds_json(tensor)}
        self._lists = {tensor.name for tensor in inputs if signature.function and _is_list(tensor)}

    def weight(self, request: InferenceRequest) -> int:
        """Roughly the bytes that `check` looks at; 0 for a request that is within all limits at first sight."""
        weight = 0
        for tensor in request.inputs:
            if tensor.datatype == "BYTES":
                weight += self._weight(tensor)
            elif tensor.name in self._lists and prod(tensor.shape) > self._limits.values:
                weight += 1
        return weight

    def _weight(self, tensor: RequestInput) -> int:
        data = tensor.data
        if (values := data.values) is None and data.is_raw:
            raw = data.to_raw("BYTES")
            size = len(raw)
            if size <= self._text:
                return 0
            if self._is_json(tensor):
                return size
            rest = size - LENGTH - int.from_bytes(raw[:LENGTH], "little")
            return size if rest > min(self._raw, LARGE) else 0
        if type(values) is not list:
            return 0
        count = len(values)
        if not self._is_json(tensor):
            return count if count > self._limits.values else 0
        size = count + sum([len(each) for each in values if isinstance(each, str | bytes | list)])
        return size if size > self._text or any(isinstance(each, list) for each in values) else 0

    def _is_json(self, tensor: RequestInput) -> bool:
        parameters = tensor.parameters
        if parameters is not None and "json" in (parameters.content_type or ""):
            return True
        return tensor.name in self._json

    def check(self, request: InferenceRequest) -> None:
        """Raise InvalidRequest or PayloadTooLarge, naming the input and the setting, for what is beyond a limit."""
        most = self._limits.values
        elements = 0
        texts: list[tuple[str, list[Any]]] = []
        for tensor in request.inputs:
            if tensor.datatype != "BYTES":
                if tensor.name in self._lists and prod(tensor.shape) > most:
                    raise InvalidRequest(
                        f'argument "{tensor.name}": a list of more than {most} numbers (setting max_json_values); '
                        "an array has no such limit"
                    )
                continue
            try:
                data = tensor.data
                values = data.split_raw(most) if data.values is None and data.is_raw else data.flat()
            except ValueError as error:
                raise InvalidRequest(f'input "{tensor.name}": {error}') from None
            elements += len(values)
            if elements > most:
                raise InvalidRequest(
                    f'input "{tensor.name}": BYTES has more than {most} elements (setting max_json_values)'
                )
            if self._is_json(tensor):
                texts.append((f'input "{tensor.name}"', values))
        if texts:
            counter = TextCounter(self._limits, elements)
            for name, values in texts:
                _count(counter, name, values)


def _count(counter: TextCounter, name: str, texts: list[Any]) -> None:
    """Count texts, short ones together: a count costs 20 µs."""
    short: list[bytes] = []
    size = 0
    for each in texts:
        text = each.encode(errors="replace") if isinstance(each, str) else each
        if not isinstance(text, bytes):
            continue
        short.append(text)
        size += len(text)
        if size > PIECE:
            counter.add_text(b" ".join(short), name)
            short, size = [], 0
    counter.add_text(b" ".join(short), name)


def _holds_json(tensor: MetadataTensor) -> bool:
    content = "" if tensor.parameters is None else tensor.parameters.content_type or ""
    return "json" in content or tensor.name in (MESSAGES, TOOLS, RESPONSE_FORMAT)


def _is_list(tensor: MetadataTensor) -> bool:
    """Whether a function gets the numbers of an input as a list."""
    content = None if tensor.parameters is None else tensor.parameters.content_type
    return tensor.datatype != "BYTES" and tensor.shape == [-1] and content is None


class CountedRequests:
    """The later requests of a call, each counted before the model sees it."""

    __slots__ = ("_counts", "_requests")

    def __init__(self, requests: AsyncIterator[InferenceRequest], counts: Counts) -> None:
        self._requests = requests
        self._counts = counts

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceRequest:
        request = await anext(self._requests)
        if request.form is None and (weight := self._counts.weight(request)):
            if weight > LARGE:
                await asyncio.to_thread(self._counts.check, request)
            else:
                self._counts.check(request)
        return request
