"""Limits on the number of values in a request: BYTES elements, JSON within them, and lists of numbers.

JSON bodies are counted before they are parsed, but that check misses elements of raw tensors and JSON inside
strings. Each byte of these can become a Python object of 60 bytes.
"""

import asyncio
from collections.abc import AsyncIterator, Set
from math import prod
from typing import Self

from ..errors import InvalidRequest
from ..protos.json_checks import JsonLimits, TextCounter
from ..signature import Signature
from ..types import InferenceRequest, RequestInput

LARGE = 64 * 1024
"""Up to this many bytes are counted on the event loop, in at most 5 ms. More are counted in a thread."""

LENGTH = 4
"""Bytes of the length prefix of each element in a raw BYTES tensor."""


class Counts:
    """Counts the values in requests to one model, whose inputs are described by `signature`."""

    def __init__(self, limits: JsonLimits, signature: Signature, json_inputs: Set[str] = frozenset()) -> None:
        """`json_inputs` are the names of inputs that contain JSON but do not declare it."""
        self._limits = limits
        self._safe_raw = min(LARGE, LENGTH * (limits.values - 1))
        """Size in bytes, after the first element, up to which a raw tensor cannot exceed the limit."""
        self._json: set[str] = set()
        self.lists: set[str] = set()
        """Numeric inputs that a function receives as a list."""
        for tensor in (*(signature.inputs or ()), *signature.described):
            content = "" if tensor.parameters is None else tensor.parameters.content_type or ""
            if "json" in content or tensor.name in json_inputs:
                self._json.add(tensor.name)
            elif signature.function and not content and tensor.datatype != "BYTES" and tensor.shape == [-1]:
                self.lists.add(tensor.name)

    def estimate_bytes(self, request: InferenceRequest) -> int:
        """Estimate how many bytes `check` must read. Returns 0 if the request is clearly within limits."""
        weight, lists = 0, self.lists
        for tensor in request._inputs:  # Bypasses the property: requests with a form are not counted.
            if tensor.datatype != "BYTES":
                if lists and tensor.name in lists:
                    weight += prod(tensor.shape) > self._limits.values
            elif type(values := tensor.data.values) is list:
                count = len(values)
                if self._is_json(tensor):
                    text = _join_strings(tensor)
                    weight += 0 if self._limits.allow(text) else count + len(text)
                elif count > self._limits.values:
                    weight += count
            elif tensor.data.is_raw:
                raw = tensor.data.to_raw("BYTES")
                size = len(raw)
                if self._is_json(tensor):
                    weight += 0 if size <= LARGE and self._limits.allow(bytes(raw)) else size
                elif size > self._safe_raw:  # A large first element leaves no room for many others.
                    first = LENGTH + int.from_bytes(raw[:LENGTH], "little")
                    weight += size if size > self._safe_raw + first else 0
        return weight

    def _is_json(self, tensor: RequestInput) -> bool:
        parameters = tensor.parameters
        return tensor.name in self._json or (
            parameters is not None and "json" in (parameters.content_type or "")
        )

    def check(self, request: InferenceRequest) -> None:
        """Raise InvalidRequest or PayloadTooLarge if a limit is exceeded.

        The message names the input and the setting.
        """
        most = self._limits.values
        elements = 0
        texts: list[tuple[str, bytes]] = []
        for tensor in request.inputs:
            named = f'input "{tensor.name}"'
            if tensor.datatype != "BYTES":
                if tensor.name in self.lists and prod(tensor.shape) > most:
                    raise InvalidRequest(
                        f"{named}: a list of more than {most} numbers (setting max_json_values)"
                    )
                continue
            try:
                elements += tensor.data.split_raw(most)
            except ValueError as error:
                raise InvalidRequest(f"{named}: {error}") from None
            if elements > most:
                raise InvalidRequest(
                    f"{named}: BYTES has more than {most} elements (setting max_json_values)"
                )
            if self._is_json(tensor):
                texts.append((named, _join_strings(tensor)))
        counter = TextCounter(self._limits, elements)
        for named, text in texts:
            counter.add_text(text, named)

    async def check_request(self, request: InferenceRequest) -> InferenceRequest:
        """Check a request, in a thread if it is large, and return it. Raises the errors of `check`."""
        if request.form is None and (weight := self.estimate_bytes(request)):
            if weight > LARGE:
                await asyncio.to_thread(self.check, request)
            else:
                self.check(request)
        return request


def _join_strings(tensor: RequestInput) -> bytes:
    """Join the strings of a tensor, because each count takes 20 µs.

    Returns an empty string for ragged lists, which no codec reads. An invalid JSON string may hide the ones
    after it, but they are not decoded either.
    """
    values = tensor.data.values
    if type(values) is list and len(values) == 1 and type(values[0]) is str:
        return values[0].encode(errors="replace")
    try:
        values = tensor.data.flat()
    except ValueError:
        return b""
    return b" ".join(
        [
            each.encode(errors="replace") if isinstance(each, str) else each
            for each in values
            if isinstance(each, str | bytes)
        ]
    )


class CountedRequests:
    """The later requests of a call, each checked before the model receives it."""

    def __init__(self, requests: AsyncIterator[InferenceRequest], counts: Counts) -> None:
        self._requests = requests
        self._checked = counts.check_request

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceRequest:
        return await self._checked(await anext(self._requests))
