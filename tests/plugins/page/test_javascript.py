"""The JavaScript client, served to pages."""

from importlib.resources import files

from tests.asgi import Echo, asking


async def test_client_equals_package_file_as_module() -> None:
    async with asking(Echo) as (client, _):
        answered = await client.get("/inferstream.js")
        assert (
            answered.content
            == files("inferstream.plugins.page").joinpath("client", "inferstream.js").read_bytes()
        )
        assert answered.headers["content-type"] == "text/javascript; charset=utf-8"
        posted = await client.post("/inferstream.js")
        assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
