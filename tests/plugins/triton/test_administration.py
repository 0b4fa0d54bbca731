"""Triton's extensions beside inference."""

import pytest

from tests.asgi import Echo, asking


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_device_memory_is_refused_by_name(method: str) -> None:
    async with asking(Echo) as (client, _):
        answered = await client.request(method, "/v2/cudasharedmemory/region/a/register")
        assert answered.status_code == 501
        assert 'does not have the extension "cuda_shared_memory"' in answered.json()["error"]
