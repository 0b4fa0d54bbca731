"""Middleware of apps sees calls and their ends."""

from typing import Any

import pytest

from inferstream import App, CallEnd, CallInfo, ModelError, testing


async def test_middleware_sees_a_call_and_its_end() -> None:
    app = App()
    seen: list[Any] = []
    ends: list[CallEnd] = []

    @app.model
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.middleware
    async def look(call: CallInfo, call_next: Any) -> Any:
        call.on_end(ends.append)
        names = [tensor.name for tensor in call.request.inputs]
        seen.append((call.model, call.version, call.operation, call.face, names, dict(call.headers)))
        call.principal = "ada"
        seen.append(call.principal)
        return await call_next(call)

    async with testing.run(app) as client:
        response = await client.infer("add", a=2)
    assert response.outputs[0].data == [3]
    assert seen == [("add", None, "infer", "", ["a"], {}), "ada"]
    assert [(end.status, end.items) for end in ends] == [("success", 1)]
    assert ends[0].seconds >= 0


async def test_middleware_refuses_a_call_before_the_function_runs() -> None:
    app = App()
    ran = []

    @app.model
    def add(a: int) -> int:
        ran.append(a)
        return a

    @app.middleware
    async def refuse(call: CallInfo, call_next: Any) -> Any:
        raise ModelError("not today", 403)

    async with testing.run(app) as client:
        with pytest.raises(ModelError, match="not today"):
            await client.infer("add", a=2)
    assert ran == []
