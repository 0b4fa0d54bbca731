"""Reads requests from a file with one request per line."""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from inferstream.errors import InvalidRequest
from inferstream.ext.http import parse_json
from inferstream.types import InferenceRequest

from .results import Indexes


class RequestLine(NamedTuple):
    """A non-blank line and its number, counted from 0."""

    number: int
    text: bytes


class RequestFile:
    """Reads the lines of a file on demand, in batches."""

    def __init__(self, path: Path, batch_size: int, done: Indexes) -> None:
        self.total_bytes = path.stat().st_size
        self.read_bytes = 0
        self.skipped = 0
        self._file = path.open("rb")
        self._batch_size = batch_size
        self._done = done

    def batches(self) -> Iterator[list[RequestLine]]:
        batch: list[RequestLine] = []
        for line in self._read_pending():
            batch.append(line)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _read_pending(self) -> Iterator[RequestLine]:
        for index, text in enumerate(self._file):
            self.read_bytes += len(text)
            if index in self._done:
                self.skipped += 1
            elif not text.isspace():
                yield RequestLine(index, text)

    def close(self) -> None:
        self._file.close()


def parse_request(line: RequestLine) -> InferenceRequest:
    """Parse the request of a line, and generate an id if it has none. Raises InvalidRequest."""
    try:
        request = InferenceRequest.model_validate(_parse_document(line.text))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise InvalidRequest("; ".join(faults)) from None
    for tensor in request.inputs:
        try:
            tensor.data.check(tensor.datatype, tensor.shape)
        except (ValueError, OverflowError, TypeError) as error:
            raise InvalidRequest(f'input "{tensor.name}": {error}') from None
    if not request.id:
        request.id = str(uuid.uuid4())
    return request


def _parse_document(text: bytes) -> Any:
    """Parse a line as JSON. Accepts NaN and Infinity, which Python writes. Raises InvalidRequest."""
    try:
        return parse_json(text, exact=True)[0]
    except orjson.JSONDecodeError as error:
        if b"NaN" in text or b"Infinity" in text:
            with suppress(ValueError, TypeError, RecursionError):
                document = json.loads(text.decode())
                orjson.dumps(document)  # Rejects lone surrogates, which JSON can escape.
                return document
        raise InvalidRequest(f"The body is not valid JSON: {error}") from None
