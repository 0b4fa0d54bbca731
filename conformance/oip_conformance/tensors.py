"""The datatypes of the protocol, with their binary encoding, gRPC field and sample values."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .outcome import Difference


@dataclass(frozen=True)
class Datatype:
    """A datatype.

    `field` is None if gRPC has no typed contents for it. `json` is whether JSON must support it.
    """

    name: str
    code: str
    field: str | None
    values: tuple[Any, ...]
    json: bool = True

    def pack(self, values: Sequence[Any]) -> bytes:
        """Encode values in little-endian, row-major order without padding.

        BYTES elements follow their length in 4 bytes.
        """
        if self.name == "BYTES":
            return b"".join(struct.pack("<I", len(value)) + value for value in map(_octets, values))
        if self.name == "BF16":
            return b"".join(struct.pack("<f", value)[2:] for value in values)
        return struct.pack(f"<{len(values)}{self.code}", *values)

    def unpack(self, data: bytes) -> list[Any]:
        """Decode values. Raises Difference if the size is invalid."""
        try:
            if self.name == "BYTES":
                return _texts(data)
            if self.name == "BF16":
                halves = (data[at : at + 2] for at in range(0, len(data), 2))
                return [struct.unpack("<f", b"\0\0" + half)[0] for half in halves]
            return list(struct.unpack(f"<{len(data) // struct.calcsize(self.code)}{self.code}", data))
        except (struct.error, UnicodeDecodeError) as error:
            raise Difference(f"{len(data)} bytes are no {self.name} tensor: {error}") from error


def _octets(value: str) -> bytes:
    return value.encode()


def _texts(data: bytes) -> list[str]:
    texts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if at + 4 + length > len(data):
            raise Difference(
                f"a BYTES element of {length} bytes goes beyond the {len(data)} bytes of its tensor"
            )
        texts.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return texts


DATATYPES = {
    datatype.name: datatype
    for datatype in (
        Datatype("BOOL", "?", "bool_contents", (True, False, True)),
        Datatype("UINT8", "B", "uint_contents", (0, 255, 7)),
        Datatype("UINT16", "H", "uint_contents", (0, 65_535, 7)),
        Datatype("UINT32", "I", "uint_contents", (0, 2**32 - 1, 7)),
        Datatype("UINT64", "Q", "uint64_contents", (0, 2**64 - 1, 7)),
        Datatype("INT8", "b", "int_contents", (-128, 127, 7)),
        Datatype("INT16", "h", "int_contents", (-32_768, 32_767, 7)),
        Datatype("INT32", "i", "int_contents", (-(2**31), 2**31 - 1, 7)),
        Datatype("INT64", "q", "int64_contents", (-(2**63), 2**63 - 1, 7)),
        Datatype("FP16", "e", None, (0.5, -2.0, 65_504.0), json=False),
        Datatype("BF16", "", None, (0.5, -2.0, 3.0), json=False),
        Datatype("FP32", "f", "fp32_contents", (0.5, -1.25, 3.0)),
        Datatype("FP64", "d", "fp64_contents", (0.1, -1.25, 1e300)),
        Datatype("BYTES", "", "bytes_contents", ("", "ab", "héllo ✓")),
    )
}
"""All datatypes, including BF16, which Triton has but the core protocol does not."""
IN_JSON = [name for name, datatype in DATATYPES.items() if datatype.json]
TYPED = [name for name, datatype in DATATYPES.items() if datatype.field]
