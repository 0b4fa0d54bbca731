"""Functions around every call: what they see, what they may refuse, and what a client gets of their errors."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inferstream import App, CallEnd, CallInfo, MLModel, ModelError, ModelSettings, Refused, testing
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import build_pipeline, build_shared_objects
from inferstream.errors import (
    DeadlineExceeded,
    InferenceFailed,
    InvalidRequest,
    InvalidSettings,
    ModelLoadFailed,
    Overloaded,
)
from inferstream.repository.apps import find_app
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters


class Guarded:
    """An app with a value, a stream that says how it ended, and whatever middleware a test adds."""

    def __init__(self) -> None:
        self.app = App()
        self.ran: list[str] = []
        self.ends: list[CallEnd] = []

        @self.app.model
        def add(a: int, b: int = 1) -> int:
            self.ran.append("add")
            if a < 0:
                raise ValueError("negative")
            return a + b

        @self.app.model
        async def count(n: int) -> AsyncIterator[int]:
            try:
                for i in range(n):
                    yield i
                    await asyncio.sleep(0)
                    if i == 3:
                        raise ValueError("three")
            finally:
                self.ran.append("closed")


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


async def numbers(client: testing.InProcess, n: int) -> list[int]:
    return [response.outputs[0].data[0] async for response in client.stream("count", n=n)]


async def test_first_middleware_is_outermost(guarded: Guarded) -> None:
    seen: list[object] = []

    @guarded.app.middleware
    async def outer(call: CallInfo, call_next):
        seen.append(("outer", call.model, call.version, call.operation, call.face, call.principal))
        call.principal = "ann"
        reply = await call_next(call)
        seen.append("outer left")
        return reply

    @guarded.app.middleware
    async def inner(call: CallInfo, call_next):
        seen.append(("inner", call.principal, [tensor.name for tensor in call.request.inputs]))
        assert dict(call.headers) == {}
        reply = await call_next(call)
        seen.append("inner left")
        return reply

    async with testing.run(guarded.app) as client:
        await client.infer("add", a=1)
        assert seen == [
            ("outer", "add", None, "infer", "", None),
            ("inner", "ann", ["a"]),
            "inner left",
            "outer left",
        ]
        assert await numbers(client, 2) == [0, 1]
        assert seen[4][3] == "stream"


async def test_middleware_refuses_before_checks_and_model(guarded: Guarded) -> None:
    @guarded.app.middleware
    async def auth(call, call_next):
        raise Refused("who are you?", 401)

    async with testing.run(guarded.app) as client:
        with pytest.raises(Refused, match="who are you") as refused:
            await client.infer("add", nonsense=1)
        assert refused.value.code.value == "unauthenticated"
        assert guarded.ran == []
        meters = client.application.meters.of("add", None)
        assert (meters.ends, meters.in_flight) == ({"unauthenticated": 1}, 0)


async def test_end_callback_runs_once(guarded: Guarded) -> None:
    @guarded.app.middleware
    async def watching(call, call_next):
        call.on_end(guarded.ends.append)
        return await call_next(call)

    async with testing.run(guarded.app) as client:
        await client.infer("add", a=1)
        assert await numbers(client, 3) == [0, 1, 2]
        with pytest.raises(InferenceFailed):
            await numbers(client, 9)
        with pytest.raises(InvalidRequest):
            await client.infer("add", c=1)
        stream = client.stream("count", n=9)
        await anext(stream)
        await stream.aclose()
    assert [(end.status, end.items) for end in guarded.ends] == [
        ("success", 1),
        ("success", 3),
        ("internal", 4),
        ("invalid", 0),
        ("cancelled", 1),
    ]
    assert all(0 < end.seconds < 60 for end in guarded.ends)


async def test_failing_callback_is_logged_and_others_run(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    @guarded.app.middleware
    async def watching(call, call_next):
        call.on_end(guarded.ends.append)
        call.on_end(lambda end: 1 / 0)
        return await call_next(call)

    async with testing.run(guarded.app) as client:
        await client.infer("add", a=1)
    assert len(guarded.ends) == 1
    assert "ZeroDivisionError" in caplog.text


async def test_coroutine_end_callback_is_refused(guarded: Guarded) -> None:
    @guarded.app.middleware
    async def watching(call, call_next):
        async def late(end: CallEnd) -> None: ...

        call.on_end(late)

    async with testing.run(guarded.app) as client:
        with pytest.raises(InferenceFailed) as failed:
            await client.infer("add", a=1)
        assert "does not wait" in str(failed.value.__cause__)


async def test_unexpected_exception_is_logged_without_details_for_client(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    @guarded.app.middleware
    async def broken(call, call_next):
        raise KeyError("secret")

    async with testing.run(guarded.app) as client:
        with pytest.raises(InferenceFailed) as failed:
            await client.infer("add", a=1)
    assert "secret" not in failed.value.message
    assert "secret" in caplog.text


async def test_app_error_mapping_applies_to_middleware(guarded: Guarded) -> None:
    class Expired(LookupError): ...

    guarded.app.error(LookupError, status=410)
    guarded.app.error(Expired, status=401, message="the key has expired")

    @guarded.app.middleware
    async def auth(call, call_next):
        raise Expired("secret")

    async with testing.run(guarded.app) as client:
        with pytest.raises(ModelError, match="the key has expired") as failed:
            await client.infer("add", a=1)
    assert failed.value.status_code == 401


@pytest.mark.parametrize("returned", ["nothing", "another"])
async def test_invalid_middleware_result_names_the_function(
    guarded: Guarded, returned: str, caplog: pytest.LogCaptureFixture
) -> None:
    @guarded.app.middleware
    async def forgetful(call, call_next):
        await call_next(call)
        return {"nothing": None, "another": "text"}[returned]

    async with testing.run(guarded.app) as client:
        with pytest.raises(InferenceFailed):
            [_ async for _ in client.stream("count", n=9)]
    assert "forgetful returned a" in caplog.text
    assert guarded.ran == ["closed"], "the stream that nobody reads"


async def test_call_next_runs_once(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    @guarded.app.middleware
    async def twice(call, call_next):
        await call_next(call)
        return await call_next(call)

    async with testing.run(guarded.app) as client:
        with pytest.raises(InferenceFailed):
            await client.infer("add", a=1)
    assert "called call_next twice" in caplog.text
    assert guarded.ran == ["add"]


async def test_failure_after_call_next_closes_the_stream(guarded: Guarded) -> None:
    @guarded.app.middleware
    async def late(call, call_next):
        call.on_end(guarded.ends.append)
        await call_next(call)
        raise Refused("too late")

    async with testing.run(guarded.app) as client:
        with pytest.raises(Refused):
            await numbers(client, 9)
        assert guarded.ran == ["closed"]
    assert [end.status for end in guarded.ends] == ["permission_denied"]


async def test_middleware_runs_within_the_deadline(guarded: Guarded) -> None:
    @guarded.app.middleware
    async def slow(call, call_next):
        await asyncio.Event().wait()

    async with testing.run(guarded.app, request_timeout=0.05) as client:
        with pytest.raises(DeadlineExceeded):
            await client.infer("add", a=1)


async def test_full_queue_refuses_after_middleware() -> None:
    app, entered, gate = App(), [], asyncio.Event()

    @app.model(max_concurrency=1, max_queue=0)
    async def held() -> None:
        await gate.wait()

    @app.middleware
    async def seeing(call, call_next):
        entered.append(call.model)
        return await call_next(call)

    async with testing.run(app) as client:
        first = asyncio.create_task(client.infer("held"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert entered == ["held"]
        with pytest.raises(Overloaded):
            await client.infer("held")
        gate.set()
        await first
    assert len(entered) == 2


async def test_model_without_middleware_has_no_stage() -> None:
    class Plain(MLModel): ...

    def stages(handler: object) -> list[str]:
        found = []
        while hasattr(handler, "_inner"):
            found.append(type(handler).__name__)
            handler = handler._inner
        return found

    settings = ModelSettings(implementation=Plain, name="m")
    assert await find_app(settings) is None
    with_none = build_pipeline(Local(Plain(settings)), build_shared_objects(Settings(), Meters()))
    assert not {"Middlewares", "AccessLog"} & {*stages(with_none.handler)}
    assert with_none.refuse is not None
    logged = build_pipeline(Local(Plain(settings)), build_shared_objects(Settings(access_log=True), Meters()))
    assert "AccessLog" in stages(logged.handler)


async def test_middleware_from_settings_wraps_every_model(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guards.py").write_text(
        "from inferstream import Refused\n"
        "async def no_one(call, call_next):\n"
        "    if call.principal is None:\n"
        "        raise Refused('not you')\n"
        "    return await call_next(call)\n"
        "def blocking(call, call_next): ...\n"
    )

    class Plain(MLModel):
        async def predict(self, payload): ...

    options = {"model_repository_root": str(tmp_path)}
    async with testing.run(Plain, middleware=["guards.no_one"], **options) as client:
        with pytest.raises(Refused):
            await client.infer("Plain", a=1)
    with pytest.raises(InvalidSettings, match=r'middleware "guards\.blocking" is no `async def`'):
        testing.run(Plain, middleware=["guards.blocking"], **options)
    with pytest.raises(InvalidSettings, match=r'middleware "guards\.missing"'):
        testing.run(Plain, middleware=["guards.missing"], **options)


async def test_process_without_the_app_does_not_serve_its_models(tmp_path: Path) -> None:
    (tmp_path / "broken_app.py").write_text("raise RuntimeError('no such database')\n")
    settings = ModelSettings(name="m", implementation="broken_app:app/m", _source=str(tmp_path / "x.py"))
    with pytest.raises(ModelLoadFailed, match="broken_app:app") as failed:
        await find_app(settings)
    assert str(tmp_path) not in failed.value.message, "a client of the repository gets it"
    assert "no such database" in str(failed.value.__cause__)


async def test_timing_middleware_logs_one_line_per_call(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    @guarded.app.middleware
    async def named(call, call_next):
        call.principal = "ann"
        return await call_next(call)

    with caplog.at_level(logging.INFO, "inferstream.access"):
        async with testing.run(guarded.app, access_log=True) as client:
            await client.infer("add", a=1)
            await numbers(client, 3)
            with pytest.raises(InvalidRequest):
                await client.infer("add")
            with pytest.raises(InferenceFailed):
                await numbers(client, 9)
    lines = [record.getMessage() for record in caplog.records if record.name == "inferstream.access"]
    assert [line.split(" ms, ")[0].rpartition(", ")[0] for line in lines] == [
        "process infer add: success",
        "process stream count: success",
        "process infer add: invalid",
        "process stream count: internal",
    ]
    assert [line.split(" ms, ")[1] for line in lines] == [
        "1 item, ann",
        "3 items, ann",
        "0 items, ann",
        "4 items, ann",
    ]
