"""The REST face of the reference server."""

import json
import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine import DECLARED, EXTENSIONS, Engine, Refusal, Tensor
from generation import Generation
from mutations import mutate_answer, mutate_events
from oip_conformance.outcome import Difference
from oip_conformance.server import flat
from oip_conformance.tensors import DATATYPES

LENGTH = "inference-header-content-length"
MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/(ready|infer|stats|generate|\w+_stream))?$")
REPOSITORY = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)$")
JSON = "application/json"


class Rest:
    """Answers requests: status, headers, and a body or events."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict, Any]:
        try:
            return self._route(method, path, headers, body)
        except Refusal as refusal:
            return refusal.status, {"Content-Type": JSON}, _dump({"error": str(refusal)})
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError, Difference) as error:
            return 400, {"Content-Type": JSON}, _dump({"error": f"bad request: {error!r}"})

    def _route(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict, Any]:
        if path == "/v2":
            return _ok({"name": "reference", "version": "1.0", "extensions": EXTENSIONS})
        if path.startswith("/v2/health/"):
            return _ok({path.rpartition("/")[2]: True})
        if path == "/v2/models/stats":
            return _ok({"model_stats": [self._stats(name) for name in DECLARED]})
        if path == "/v2/repository/index":
            return _ok(self.engine.index(bool(json.loads(body or b"{}").get("ready"))))
        if matched := REPOSITORY.match(path):
            self.engine.load(matched[1], matched[2] == "load")
            return _ok({})
        matched = MODEL.match(path)
        if matched is None:
            raise Refusal(404, f"no route {path}")
        name, action = self.engine.model(matched[1], matched[2] or ""), matched[3]
        if action in ("infer", "generate", "infer_stream", "generate_stream"):
            if method != "POST":
                raise Refusal(405, "POST it")
            return self._infer(name, action, headers, body)
        return _ok(self._read(name, action))

    def _read(self, name: str, action: str | None) -> Any:
        if action == "ready":
            return {"name": name, "ready": True}
        if action == "stats":
            return {"model_stats": [self._stats(name)]}
        described = [
            [dict(zip(("name", "datatype", "shape"), t, strict=True)) for t in side]
            for side in DECLARED[name]
        ]
        return {
            "name": name,
            "versions": ["1"],
            "platform": "p",
            "inputs": described[0],
            "outputs": described[1],
        }

    def _stats(self, name: str) -> dict[str, Any]:
        leaf = {"count": self.engine.count, "ns": 1}
        keys = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
        counts = {
            "last_inference": 1,
            "inference_count": self.engine.count,
            "execution_count": self.engine.count,
        }
        stats = {"inference_stats": dict.fromkeys(keys, leaf), "batch_stats": []}
        return {"name": name, "version": "1", **counts, **stats}

    def _infer(
        self, name: str, action: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict, Any]:
        length = headers.get(LENGTH)
        size = len(body) if length is None else int(length)
        if not 0 <= size <= len(body):
            raise Refusal(400, f"{LENGTH}: {length}")
        document, blobs = json.loads(body[:size]), body[size:]
        if "inputs" not in document and action.startswith("generate"):
            return self._generate(name, action, document)
        if not isinstance(document["inputs"], list):
            raise Refusal(400, "inputs are a list")
        inputs, end = [], 0
        for tensor in document["inputs"]:
            data, end = _data(tensor, blobs, end)
            inputs.append(Tensor(tensor["name"], tensor["datatype"], tensor["shape"], data))
        if end != len(blobs):
            raise Refusal(400, "bytes too many")
        head = {
            "model_name": name,
            "model_version": "1",
            **({"id": document["id"]} if "id" in document else {}),
        }
        if action.endswith("stream"):
            return 200, {"Content-Type": "text/event-stream; charset=utf-8"}, self._events(head, inputs)
        wanted = [output["name"] for output in document.get("outputs") or []]
        outputs = self.engine.infer(name, inputs, wanted)
        return _response(head, outputs, document, self.engine.wrong)

    def _events(self, head: dict[str, Any], inputs: list[Tensor], key: str = "") -> Iterator[dict[str, Any]]:
        try:
            for word in self.engine.words(inputs):
                output = {"name": "text_output", "datatype": "BYTES", "shape": [1], "data": [word]}
                yield {**head, key: word} if key else {**head, "outputs": [output]}
        except Refusal as refusal:
            yield {"error": str(refusal)}

    def _generate(self, name: str, action: str, document: dict[str, Any]) -> tuple[int, dict, Any]:
        streamed = {"Content-Type": "text/event-stream; charset=utf-8"}
        if name == "oip-text":
            generation = Generation(self.engine, name, document)
            generation.check_first()
            return (
                (200, streamed, generation.events()) if action.endswith("stream") else _ok(generation.whole())
            )
        if not isinstance(document.get("parameters", {}), dict):
            raise Refusal(400, "parameters are an object")
        inputs = [Tensor("text_input", "BYTES", [1], [document["text_input"]])]
        head = {"model_name": name, "model_version": "1"}
        if action == "generate_stream":
            events = self._events(head, inputs, "text_output")
            return 200, streamed, events
        return _ok({**head, "text_output": "".join(self.engine.words(inputs))})


def _data(tensor: dict[str, Any], blobs: bytes, start: int) -> tuple[list[Any], int]:
    parameters = tensor.get("parameters", {})
    size = parameters.get("binary_data_size")
    if (size is None) == ("data" not in tensor):
        raise Refusal(400, "data or binary data")
    if size is None:
        return flat(tensor["data"]), start
    if size < 0 or start + size > len(blobs):
        raise Refusal(400, "bytes too few")
    datatype = DATATYPES[tensor["datatype"]]
    values = datatype.unpack(blobs[start : start + size])
    if len(datatype.pack(values)) != size:
        raise Refusal(400, "bytes that do not divide")
    return values, start + size


def _response(
    head: dict[str, Any], outputs: list[Tensor], document: dict[str, Any], wrong: frozenset[str]
) -> tuple[int, dict, Any]:
    default = (document.get("parameters") or {}).get("binary_data_output", False)
    asked = {
        part["name"]: part.get("parameters", {}).get("binary_data") for part in document.get("outputs") or []
    }
    described, blobs = [], b""
    for output in outputs:
        part: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": output.shape}
        chosen = asked.get(output.name)
        if _is_binary(wrong, default if chosen is None else chosen):
            blob = DATATYPES[output.datatype].pack(output.values)
            part["parameters"] = {"binary_data_size": len(blob)}
            blobs += blob
        else:
            part["data"] = output.values
        described.append(part)
    text = _dump({**head, "outputs": described})
    if not any("parameters" in part for part in described):
        return 200, {"Content-Type": JSON}, text
    return 200, {"Content-Type": "application/octet-stream", LENGTH: str(len(text))}, text + blobs


def _is_binary(wrong: frozenset[str], asked: bool) -> bool:
    return asked or "always-binary" in wrong


def _ok(document: Any) -> tuple[int, dict, Any]:
    return 200, {"Content-Type": JSON}, _dump(document)


def _dump(document: Any) -> bytes:
    return json.dumps(document).encode()


def http_server(engine: Engine) -> ThreadingHTTPServer:
    """The face on a free port of loopback."""
    rest = Rest(engine)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if "headers-case-sensitive" in engine.wrong:
                headers = {
                    name: value for name, value in headers.items() if LENGTH.upper() not in list(self.headers)
                }
            status, sent, body = rest.answer(method, self.path, headers, given)
            self.close_connection = True
            if isinstance(body, bytes):
                status, sent, body = mutate_answer(engine.wrong, (self.path, given), status, sent, body)
                if "no-content-length" not in engine.wrong:
                    sent["Content-Length"] = str(len(body))
                self._head(status, sent)
                self.wfile.write(body)
                return
            sent, lines = mutate_events(engine.wrong, sent, body)
            self._head(status, sent)
            for line in lines:
                self.wfile.write(line)

        def _head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
