"""What legitimately differs between two recordings, and what stands for it in the files. There is nothing else.

- The time when a model was loaded is replaced by zeros of the same length.
- The other times of Ollama's responses have one value, and their durations another.
- Generated ids are replaced by zeros of the same length.
- The `date` header has no value.
- The status line has no phrase, because those are Python's and change with its version.
- A compressed body is recorded as it is after decompression, and its `content-length` has no value.
- HTTP's chunks, and frames of gRPC's transport, are joined: how many events leave together depends on time.
- Ports and the addresses with them are replaced.
- `keyed` bodies are JSON of which only the keys are compared; `hashed` ones are compared by their SHA-256.
- Metrics are compared by names, types and labels' names.
"""

import base64
import hashlib
import json
import re
import zlib

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ZEROS = b"00000000-0000-0000-0000-000000000000"
CREATED = re.compile(rb'(?<="created":)\d{10}')
AT = re.compile(rb'(?<=_at":")[\dT:.-]+Z')
DURATION = re.compile(rb'(?<=_duration":)\d+')
PORT = re.compile(rb"(?<=127\.0\.0\.1:)\d+")
WINDOWS = {"gzip": 31, "deflate": zlib.MAX_WBITS}

Text = str | list[str] | dict[str, str]


def normal(data: bytes) -> bytes:
    """Bytes without what is generated."""
    data = CREATED.sub(b"0" * 10, UUID.sub(ZEROS, data))
    return PORT.sub(b"PORT", DURATION.sub(b"0", AT.sub(b"TIME", data)))


def text_of(data: bytes) -> Text:
    """Bytes as JSON can hold them: text, text of several lines, or base64."""
    data = normal(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return base64_of(data)
    return text.splitlines(keepends=True) if text.count("\n") else text


def base64_of(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(normal(data)).decode()}


def body_of(data: bytes, encoding: str | None, show: str) -> object:
    """An HTTP body, as `show` says: `plain`, `keyed`, `hashed` or `metrics`."""
    if encoding is not None:
        inflater = zlib.decompressobj(WINDOWS[encoding])
        data = inflater.decompress(data)
        assert inflater.eof, "the compressed body is not whole"
        assert not inflater.unused_data, "bytes follow the compressed body"
    if show == "hashed":
        return {"sha256": hashlib.sha256(data).hexdigest()}
    if show == "keyed":
        return keys_of(json.loads(data))
    if show == "metrics":
        return metrics_of(data.decode())
    return text_of(data)


def headers_of(lines: list[bytes], body_is_stable: bool) -> list[str]:
    """The headers in their order, without values that vary."""
    compressed = any(line.lower().startswith(b"content-encoding:") for line in lines)
    unstable = ("date", "content-length") if compressed or not body_is_stable else ("date",)
    headers = []
    for line in lines:
        name, _, value = normal(line).decode("latin-1").partition(": ")
        headers.append(f"{name}: {'...' if name.lower() in unstable else value}")
    return headers


def keys_of(document: object, depth: int = 4) -> object:
    """The keys of nested objects, in their order; values are texts and numbers of the outermost objects."""
    if isinstance(document, dict) and depth:
        return {name: keys_of(value, depth - 1) for name, value in document.items()}
    if isinstance(document, list) and depth:
        return [keys_of(item, depth - 1) for item in document]
    return "..." if isinstance(document, dict | list) else document


def metrics_of(text: str) -> list[str]:
    """Names, types and labels' names of Prometheus metrics."""
    found = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            found.add(line.removeprefix("# TYPE "))
        elif not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels = re.findall(r'(\w+)="', rest.rpartition("}")[0])
            found.add(f"{name if rest else line.split()[0]} {{{', '.join(labels)}}}")
    return sorted(found)
