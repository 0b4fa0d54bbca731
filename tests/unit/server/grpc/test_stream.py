"""A stream speaks the dialect that its metadata and first request say."""

import pytest
from google.protobuf.json_format import ParseDict

from inferstream.dataplane.access import Action, Authority
from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidRequest, InvalidSettings, Overloaded, Unsupported
from inferstream.extensions.entries import STREAM_DIALECTS, Plugin
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.server.grpc import stream
from inferstream.server.grpc.dialects.dialect import StreamDialect, StreamExchange, StreamRequest
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.stream import choose_dialect, load_stream_dialects
from inferstream.settings import Settings
from inferstream.types import Headers

from .first_requests import first_of


def message(raw_input_contents=(), **fields):
    made = ParseDict(fields, ModelInferRequest())  # protobuf 5 takes no dictionary for a message in a map
    made.raw_input_contents.extend(raw_input_contents)
    return made


DIALECTS = load_stream_dialects(strict=True)

PYTHON = {"user-agent": "grpc-python/1.81.1 grpc-c/53.0.0 (linux; chttp2)"}
NP = {"content_type": {"string_param": "np"}}


@pytest.mark.parametrize(
    ("asked", "metadata", "expected"),
    [
        (message(), {}, "mlserver"),
        (message(raw_input_contents=[b"x"]), {}, "mlserver"),
        (message(raw_input_contents=[b"x"]), PYTHON, "triton"),
        (message(raw_input_contents=[b"x"], inputs=[{"parameters": NP}]), PYTHON, "mlserver"),
        (message(parameters={"triton_x": {"bool_param": True}}, inputs=[{"parameters": NP}]), {}, "triton"),
        (message(parameters={"sequence_id": {"int64_param": 1}}), {}, "triton"),
        (message(inputs=[{"parameters": {"shared_memory_region": {"string_param": "r"}}}]), {}, "triton"),
        (message(), {"triton_grpc_error": "true"}, "triton"),
        (message(raw_input_contents=[b"x"]), {"x-stream-dialect": "mlserver"}, "mlserver"),
        (message(raw_input_contents=[b"x"]), PYTHON | {"x-stream-dialect": "v2"}, "mlserver"),
        (message(inputs=[{"parameters": NP}]), {"x-stream-dialect": "triton"}, "triton"),
    ],
)
def test_stream_dialect_is_detected(asked, metadata: dict, expected: str) -> None:
    assert choose_dialect(DIALECTS, first_of(asked), Headers(metadata.items()), "mlserver") == expected


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("grpc-python/1.81.1 grpc-c/53.0.0 (linux; chttp2)", "triton"),
        ("grpc-python-asyncio/1.81.1 grpc-c/53.0.0 (linux; chttp2)", "triton"),
        ("shop/2.0 grpc-c++/1.60.0 grpc-c/37.0.0 (linux; chttp2)", "triton"),
        ("grpc-node-js/1.13.0", "mlserver"),
        ("grpc-go/1.72.0", "mlserver"),
        ("grpc-java-netty/1.70.0", "mlserver"),
        ("my-grpc-python/1", "mlserver"),
        ("", "mlserver"),
    ],
)
def test_raw_contents_select_triton_for_ambiguous_clients(agent: str, expected: str) -> None:
    asked = message(raw_input_contents=[b"x"])
    assert choose_dialect(DIALECTS, first_of(asked), Headers([("user-agent", agent)]), "mlserver") == expected
    assert choose_dialect(DIALECTS, first_of(asked), Headers([("user-agent", agent)]), "triton") == "triton"


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="esperanto"):
        choose_dialect(
            DIALECTS, first_of(message()), Headers([("x-stream-dialect", "esperanto")]), "mlserver"
        )


class Esperanto(StreamDialect):
    """A dialect of its own, which a parameter tells."""

    name = "esperanto"

    @staticmethod
    def is_certain(first: StreamRequest, metadata: Headers) -> bool:
        return "verda" in first.message.parameters

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        await exchange.write(first.message.id.encode())


class Exchange:
    """A stream of one request."""

    def __init__(self, request: ModelInferRequest) -> None:
        self.context = self
        self._request = request
        self.written: list[bytes] = []

    deadline = None
    metadata = CallMetadata(())

    async def read(self) -> ModelInferRequest:
        return self._request

    async def write(self, data: bytes) -> None:
        self.written.append(data)


class FullDataPlane:
    """Refuses every request."""

    events = None
    access = Authority(Settings())

    def __init__(self) -> None:
        self.refusals: list[tuple[str, str]] = []

    def admit(self, model: str, version: str | None, caller: Caller, action: Action) -> None:
        raise Overloaded("full")

    def log_rejection(self, caller: Caller, operation: str, model: str, error: Exception) -> None:
        self.refusals.append((caller.dialect, operation))

    def stream_dialect(self, name: str) -> None:
        return None


class Defaults:
    status_profile = "default"
    grpc_stream_dialect = "mlserver"
    strict = False


class Taken(Esperanto):
    """A second dialect of a name that the protocol's has."""

    name = "second"
    aliases = ("v2",)


@pytest.fixture
def joining(monkeypatch):
    """Lets classes join, each as the entry of a name."""

    def join(**kinds: object) -> None:
        entries = [(Plugin("p", STREAM_DIALECTS, name, "m:x"), kind) for name, kind in kinds.items()]
        monkeypatch.setattr(stream, "load_group", lambda group, strict: entries)

    return join


def test_plugin_dialects_are_tried_before_the_protocol_dialect() -> None:
    assert [*DIALECTS] == ["triton", "mlserver"]


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("dictionary", dict, "it is not a subclass of StreamDialect"),
        ("volapuk", Esperanto, 'its name is "esperanto"'),
        ("second", Taken, 'another dialect has the name "v2"'),
    ],
)
def test_unusable_dialect_is_skipped(joining, caplog, name: str, kind: object, reason: str) -> None:
    joining(esperanto=Esperanto, **{name: kind})
    assert [*load_stream_dialects(strict=False)] == ["esperanto", "mlserver"]
    assert reason in caplog.text
    with pytest.raises(InvalidSettings, match="package p"):
        load_stream_dialects(strict=True)


async def test_setting_with_a_skipped_dialect_is_an_error(joining) -> None:
    joining()
    service = stream.StreamService(FullDataPlane(), Defaults())
    service._default = "triton"
    with pytest.raises(Unsupported, match='the dialect "triton" cannot be used'):
        await service.ModelStreamInfer(Exchange(message(id="i")))


async def test_dialect_needs_a_class_and_one_registration_line(joining) -> None:
    joining(esperanto=Esperanto)
    exchange = Exchange(message(id="i", parameters={"verda": {"bool_param": True}}))
    await stream.StreamService(FullDataPlane(), Defaults()).ModelStreamInfer(exchange)
    assert exchange.written == [b"i"]
