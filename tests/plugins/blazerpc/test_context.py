"""What functions of BlazeRPC get of a call."""

from types import SimpleNamespace

from inferstream import testing
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
    Context,
    Depends,
)


async def test_dependencies_receive_context() -> None:
    app = BlazeApp()
    app.state.n = 7
    seen = []

    def sync(ctx: Context) -> int:
        seen.append(ctx)
        return int(ctx.app_state.n)

    async def awaits(ctx) -> str:
        return str(ctx.method)

    @app.model("both")
    async def both(n: int, a: int = Depends(sync), b: str = Depends(awaits)) -> str:
        return f"{n} {a} {b}"

    @app.model("blocking")
    def blocking(ctx: Context, n: int, a: int = Depends(sync)) -> str:
        return f"{n} {a} {ctx.peer.addr()} {dict(ctx.metadata)}"

    async with testing.run(app) as models:
        response = await models.infer("both", n=1)
        assert response.outputs[0].data.flat() == ["1 7 /blazerpc.InferenceService/PredictBoth"]
        assert (await models.infer("blocking", n=1)).outputs[0].data.flat() == ["1 7 None {}"]
    assert isinstance(seen[0], Context)
    context = Context.from_raw({"a": "b"}, "peer", "/m", app.state)
    assert (context.metadata, context.peer, context.method) == ({"a": "b"}, "peer", "/m")
    same = Context(SimpleNamespace(metadata={}, peer=None), "/m", app.state)
    assert same.app_state is app.state
