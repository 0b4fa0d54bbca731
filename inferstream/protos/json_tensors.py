"""Large JSON requests, whose numbers become arrays without becoming Python objects first.

simdjson reads them and hands a whole array over at once: a tensor of [1,3,224,224] takes 3.1 ms to be a
NumPy array, against 7.6 ms by way of orjson and a list, and 1.5 ms less to be searched for keys given twice.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from simdjson import Array, Object, Parser

from ..types import TensorData
from ..types.datatypes import DTYPES

LARGE = 32 * 1024
"""Bytes of JSON from which this way is worth its fixed cost."""


HEAD = 1024
"""Bytes in which nearly every client has named the datatype of its first tensor."""


MUCH = 16
"""How many times as much room as a document needs the kept parser may have."""


class _Parser:
    """The parser of the last document, with its buffers: taking new ones doubles the time that parsing takes.

    45 MB of JSON take 112 ms instead of 225. What it keeps, about three bytes for each of the last document,
    goes with the next one that is much smaller.
    """

    def __init__(self) -> None:
        self._parser = Parser()
        self._room = 0

    def parse(self, text: bytes) -> Any:
        """The document in `text`, valid until the next one. Raises ValueError."""
        size = len(text)
        if size * MUCH < self._room:
            self._parser, self._room = Parser(), 0
        self._room = max(self._room, size)
        return self._parser.parse(text)


_shared_parser = _Parser()


class Document(dict[str, Any]):
    """A JSON object, in all of which no key is given twice."""


class _Other(Exception):
    """This way leads nowhere."""


def load_tensors(text: bytes) -> Document | None:
    """The request in `text`, its tensors as `TensorData`; None for all that is not plainly numbers in place.

    What is wrong, or unusual, is told by whoever reads it then: nothing here raises.
    """
    if b'"BYTES"' in text[:HEAD]:
        return None  # only a guess where to find it, that saves parsing twice
    reading = _Reading()
    try:
        document = reading.request(_shared_parser.parse(text))
    except (_Other, ValueError, TypeError, KeyError, RuntimeError, FloatingPointError):
        return None
    # The parser flattens what is nested. Every list was looked at if there are no others.
    lists = np.count_nonzero(np.frombuffer(text, np.uint8) == ord("["))
    return document if lists == reading.lists else None


class _Reading:
    """One request, and how many of its lists have been looked at."""

    def __init__(self) -> None:
        self.lists = 0

    def request(self, root: Any) -> Document:
        document = Document(_members(root))
        for name, value in document.items():
            document[name] = self._inputs(value) if name == "inputs" else self._plain(value)
        return document

    def _inputs(self, inputs: Any) -> list[dict[str, Any]]:
        self.lists += 1
        return [self._input(_members(item)) for item in inputs]

    def _input(self, item: dict[str, Any]) -> dict[str, Any]:
        data = item.pop("data", None)
        found = {name: self._plain(value) for name, value in item.items()}
        if data is not None:
            found["data"] = TensorData(self._array(data, found["datatype"]))
        return found

    def _array(self, data: Any, datatype: str) -> npt.NDArray[Any]:
        dtype: np.dtype[Any] = DTYPES[datatype]
        self._nesting(data)
        if dtype.kind == "f":
            wide = np.frombuffer(data.as_buffer(of_type="d"), np.float64)
            with np.errstate(over="raise"):
                return wide.astype(dtype, copy=False)
        if dtype.kind not in "iu":
            raise _Other
        largest = np.uint64 if datatype == "UINT64" else np.int64
        exact = np.frombuffer(data.as_buffer(of_type="u" if largest is np.uint64 else "i"), largest)
        limits = np.iinfo(dtype)
        if exact.size and not (limits.min <= exact.min() and exact.max() <= limits.max):
            raise _Other
        return exact.astype(dtype, copy=False)

    def _nesting(self, data: Any) -> None:
        """Look at every list in `data`. Raises _Other when those of one depth are not equally long."""
        if not isinstance(data, Array):
            raise _Other
        level: list[Any] = [data]
        while True:
            self.lists += len(level)
            size = len(level[0])
            if any(len(part) != size for part in level):
                raise _Other
            if not size or not isinstance(level[0][0], Array):
                return
            level = [part for parts in level for part in parts]
            if not all(isinstance(part, Array) for part in level):
                raise _Other

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Object):
            return {name: self._plain(member) for name, member in _members(value).items()}
        if isinstance(value, Array):
            self.lists += 1
            return [self._plain(member) for member in value]
        return value


def _members(value: Any) -> dict[str, Any]:
    """What an object holds. Raises _Other unless it is one in which every key is given once."""
    if not isinstance(value, Object):
        raise _Other
    found = {name: value[name] for name in value}
    if len(found) != len(value):
        raise _Other
    return found
