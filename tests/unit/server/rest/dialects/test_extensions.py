"""Triton's extensions that are off."""

import pytest

from inferstream.server.rest.dialects.extensions import MISSING

from ...asgi import Echo, asking


@pytest.mark.parametrize(("path", "extension"), MISSING.items())
async def test_every_method_at_their_paths_names_the_extension(path: str, extension: str) -> None:
    path = path.replace("{model_name}", "Echo").replace("{path}", "region/a/register")
    async with asking(Echo) as (client, _):
        for method in ("GET", "POST", "DELETE"):
            answered = await client.request(method, path)
            assert answered.status_code == 501
            assert f'does not have the extension "{extension}"' in answered.json()["error"]
