"""What followers ask the leader for, because it alone knows or does it."""

import logging
from collections.abc import Awaitable, Callable

import orjson

from ...dataplane.registry import Registry
from ...errors import InferenceFailed, InferstreamError
from ...processes.frames import pack_failure
from . import frames
from .member import Member

logger = logging.getLogger("inferstream.server")


async def run_query(
    member: Member, frame: frames.Query, registry: Registry, exposition: Callable[[], Awaitable[bytes]]
) -> None:
    """Do what a follower asks for, and tell it what came of it."""
    try:
        data = await _run(frame, registry, exposition)
        member.send(frames.QueryResult(frame.question, None, data))
    except InferstreamError as error:
        member.send(frames.QueryResult(frame.question, pack_failure(error)))
    except Exception:
        logger.exception("what front end %d asked for failed", member.pid)
        failed = InferenceFailed("The server failed; its log says why.")
        member.send(frames.QueryResult(frame.question, pack_failure(failed)))


async def _run(frame: frames.Query, registry: Registry, exposition: Callable[[], Awaitable[bytes]]) -> bytes:
    match frame.what:
        case "load":
            await registry.load(frame.name)
            return b""
        case "unload":
            return b"known" if await registry.unload(frame.name) else b""
        case "metrics":
            return await exposition()
        case _:
            items = await registry.index(ready=frame.what == "ready")
            return orjson.dumps([item.model_dump(mode="json") for item in items])
