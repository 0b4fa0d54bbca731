import asyncio

import httpx
import pytest
from tenants.facet import TextInput
from words import app

from inferstream import testing
from inferstream.errors import Refused

SEARCH = {"x-tenant": "search"}


def test_a_call_needs_a_tenant():
    with testing.run(app, tenants={"search": 2}) as served:
        with pytest.raises(Refused, match="x-tenant is missing"):
            served.infer("shout", text="hello")


def test_the_third_call_in_a_minute_is_refused():
    with testing.run(app, tenants={"search": 2}) as served:
        for _ in range(2):
            served.infer("shout", text="hello", headers=SEARCH)
        with pytest.raises(Refused, match="2 calls per minute") as refused:
            served.infer("shout", text="hello", headers=SEARCH)
    assert refused.value.status_code == 429


def test_the_facet_names_the_input_of_text():
    with testing.run(app, tenants={"search": 2}) as served:
        models = served.application.models
        assert models.described("shout").facet(TextInput) == TextInput("text")
        assert models.described("add").facet(TextInput) is None


async def get_usage():
    async with testing.run(app, tenants={"search": 2}) as served:
        await served.infer("shout", text="hello", headers=SEARCH)
        transport = httpx.ASGITransport(served.application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return (await client.get("/tenants/usage", headers=SEARCH)).json()


def test_a_tenant_sees_its_usage():
    usage = asyncio.run(get_usage())
    assert usage == {"tenant": "search", "calls": 1, "characters": 5, "calls_per_minute": 2}
