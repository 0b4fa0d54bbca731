"""Writes results to a file, one complete line per request."""

import contextlib
import os
from pathlib import Path
from typing import Any

import orjson

from inferstream.errors import InferstreamError
from inferstream.ext.http import JSON_WRITER
from inferstream.types import InferenceResponse, Parameters


class Indexes:
    """A set of line numbers as a bitmap, because a file can have hundreds of millions of lines."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, index: int) -> None:
        byte, bit = divmod(index, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        self._bits[byte] |= 1 << bit

    def __contains__(self, index: int) -> bool:
        byte, bit = divmod(index, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)


NAMED = 5
"""Maximum number of failures in the summary. The output file contains all of them."""


class ResultFile:
    """The output file of a run. Each method returns after it has written a complete line."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.done = Indexes()
        self.succeeded = 0
        self.failed = 0
        self.named: list[tuple[int, str]] = []
        """Line number and reason of the first failures."""
        if resume and path.exists():
            self._keep_results(path)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if resume else os.O_TRUNC), 0o666)
        self._end = os.lseek(self._file, 0, os.SEEK_END)

    def add_response(self, index: int, inference_id: str, response: InferenceResponse) -> None:
        known = {"batch_index": index, "inference_id": inference_id}
        parameters = dict(response.parameters.items()) if response.parameters is not None else {}
        response.parameters = Parameters(**{**parameters, **known})
        try:
            line, _ = response.accept(JSON_WRITER)
        except InferstreamError as error:
            self.fail(index, error.message)
            return
        self._write(line)
        self.succeeded += 1

    def fail(self, index: int, message: str) -> None:
        # Every failure has the status that MLServer writes, because programs that read the output compare it.
        error = {"status": "preprocessing error", "msg": message}
        self._write(orjson.dumps({"parameters": {"batch_index": index}, "error": error}))
        self.failed += 1
        if len(self.named) < NAMED:
            self.named.append((index, message))

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: bytes) -> None:
        left = memoryview(line + b"\n")
        size = len(left)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            error.filename = self._path
            with contextlib.suppress(OSError):  # Output that is not a regular file cannot be truncated.
                os.ftruncate(self._file, self._end)  # Removes the partial line if the disk is full.
            raise
        self._end += size

    def _keep_results(self, path: Path) -> None:
        """Keep the lines of successful requests. Drop failures and the partial line of a killed process."""
        kept = path.with_name(f"{path.name}.resuming")
        with path.open("rb") as old, kept.open("wb") as new:
            for line in old:
                index = _parse_index(line)
                if index is not None and index not in self.done:
                    self.done.add(index)
                    new.write(line)
            new.flush()
            os.fsync(new.fileno())
        os.replace(kept, path)


def _parse_index(line: bytes) -> int | None:
    try:
        document: Any = orjson.loads(line) if line.endswith(b"\n") else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or "error" in document:
        return None
    parameters = document.get("parameters")
    index = parameters.get("batch_index") if isinstance(parameters, dict) else None
    return index if type(index) is int and index >= 0 else None
