"""The request whose model code is running."""

import asyncio
import threading
from contextvars import Context, copy_context

import pytest

from inferstream.context import RequestContext, enter, request_context, request_id_var


def test_no_context_exists_outside_model_code() -> None:
    with pytest.raises(RuntimeError, match="only in a model's predict, predict_stream and admit"):
        Context().run(request_context)


async def test_each_task_has_its_own_context() -> None:
    async def serve(context: RequestContext) -> RequestContext:
        enter(context)
        await asyncio.sleep(0)
        return request_context()

    contexts = [RequestContext(), RequestContext()]
    assert await asyncio.gather(*map(serve, contexts)) == contexts


async def test_thread_with_copied_context_has_the_same_request() -> None:
    context = RequestContext()
    enter(context)
    seen: list[RequestContext] = []
    copied = copy_context()
    thread = threading.Thread(target=copied.run, args=(lambda: seen.append(request_context()),))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert seen == [context]


def test_remaining_time_is_negative_after_the_deadline() -> None:
    assert RequestContext().time_remaining is None
    later, passed = RequestContext(60).time_remaining, RequestContext(-1).time_remaining
    assert later is not None
    assert 0 < later <= 60
    assert passed is not None
    assert passed < 0


def test_request_may_have_an_id() -> None:
    context = RequestContext()
    assert context.request_id is None
    token = request_id_var.set("7")
    try:
        assert context.request_id == "7"
    finally:
        request_id_var.reset(token)
