"""The JavaScript client, served to pages."""

from importlib.resources import files

from ...asgi import Echo, asking


async def test_the_client_is_the_file_of_the_package_as_a_module_may_be() -> None:
    async with asking(Echo) as (client, _):
        answered = await client.get("/inferstream.js")
        assert answered.content == files("inferstream").joinpath("javascript", "inferstream.js").read_bytes()
        assert answered.headers["content-type"] == "text/javascript; charset=utf-8"
        posted = await client.post("/inferstream.js")
        assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
