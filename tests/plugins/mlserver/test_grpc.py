"""Functions for a program's own servicers of gRPC."""

import grpc

from inferstream.ext.hosting import install_aliases

install_aliases()


async def test_rpc_stream_ends_with_status() -> None:
    from mlserver.errors import MLServerError
    from mlserver.grpc.utils import handle_mlserver_stream_error

    class Context:
        async def abort(self, code: grpc.StatusCode, details: str) -> None:
            self.ended = (code, details)

    @handle_mlserver_stream_error
    async def rpc(self: object, requests: list[int], context: Context):
        yield requests[0]
        raise MLServerError("enough", 422)

    context = Context()
    assert [item async for item in rpc(None, [1], context)] == [1]
    assert context.ended == (grpc.StatusCode.FAILED_PRECONDITION, "enough")


async def test_rpc_errors_are_statuses() -> None:
    from mlserver.errors import MLServerError
    from mlserver.grpc.utils import handle_mlserver_error, to_metadata

    class Context:
        async def abort(self, code: grpc.StatusCode, details: str) -> None:
            self.ended = (code, details)

    @handle_mlserver_error
    async def rpc(self: object, request: Exception, context: Context) -> None:
        raise request

    for error, ended in {
        MLServerError(msg="gone", status_code=404): (grpc.StatusCode.NOT_FOUND, "gone"),
        ValueError("secret"): (grpc.StatusCode.INTERNAL, "The call failed."),
    }.items():
        context = Context()
        await rpc(None, error, context)
        assert context.ended == ended
    assert to_metadata({"X-A": "b"}) == (("x-a", "b"),)
