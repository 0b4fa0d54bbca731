"""Inferences by HTTP, and clients that leave them."""

import asyncio
from typing import Any

import pytest

from inferstream import Application
from inferstream.dataplane.admission import Admission
from inferstream.dataplane.first_calls import NotLoaded
from tests.asgi import BODY, Client, Echo, http, request, waiting


async def test_disconnect_cancels_the_call_and_not_the_server() -> None:
    model = waiting()
    async with Application(model) as application:
        client = Client(request())
        serving = asyncio.create_task(
            application.asgi(http("/v2/models/waiting/infer"), client.messages.get, client.send)
        )
        await model.begun.wait()
        client.messages.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(10):
            await model.ended.wait()
            await serving
        assert not serving.cancelling()
        assert client.sent == []


async def test_end_of_response_is_not_a_disconnect() -> None:
    async with Application(Echo) as application:
        client = Client(request())

        async def send(message: Any) -> None:
            client.sent.append(message)
            if message["type"] == "http.response.body":
                client.messages.put_nowait({"type": "http.disconnect"})
                for _ in range(5):
                    await asyncio.sleep(0)

        await application.asgi(http("/v2/models/Echo/infer"), client.messages.get, send)
        assert client.sent[0]["status"] == 200
        assert 'status_code="499"' not in (await application.meters.scrape()).decode()


async def test_requests_leave_nothing_behind() -> None:
    async with Application(Echo) as application:
        before = asyncio.all_tasks()
        for body in (BODY, b"{", BODY * 3):
            await Client(request(body)).ask(application.asgi, http("/v2/models/Echo/infer", body))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def test_http_2_response_has_no_connection_header() -> None:
    async with Application(Echo, max_body_bytes=1) as application:
        for version, expected in (("1.1", True), ("2", False)):
            client = Client(request())
            scope = http("/v2/models/Echo/infer", http_version=version)
            assert (await client.ask(application.asgi, scope))[0] == 413
            assert ((b"connection", b"close") in client.sent[0]["headers"]) is expected


async def test_model_evicted_while_a_body_arrives_is_reloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Application(Echo) as application:
        dataplane, renewed = application._backend.dataplane, Admission.renew
        loads: list[str] = []

        def renew(admission: Admission) -> None:
            if not loads:
                raise NotLoaded(("Echo", None))
            renewed(admission)

        async def admit_loaded(*of: Any) -> Admission:
            loads.append(of[0])
            return dataplane.admit(*of)

        monkeypatch.setattr(Admission, "renew", renew)
        monkeypatch.setattr(dataplane, "load_and_admit", admit_loaded)
        status, _ = await Client(request()).ask(application.asgi, http("/v2/models/Echo/infer"))
        assert (status, loads) == (200, ["Echo"])
