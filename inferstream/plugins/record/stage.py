"""The stage that adds call details to a recording, and the edge that starts it."""

import atexit
from collections.abc import Awaitable
from functools import cache

from inferstream.errors import InvalidSettings
from inferstream.ext.calls import AtEnd, Call, Handler, Reply, ServerParts, StageContext, StagedModel
from inferstream.ext.telemetry import kind_of_end

from .events import EventSink
from .file import RecordFile
from .ports import Recorder
from .recording import CREDENTIALS, PortRecording
from .settings import RecordSection, RecordSettings


class RecordedCalls:
    """Stores the model, client and outcome of each call in its recording."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def __call__(self, call: Call) -> Awaitable[Reply]:
        recording = getattr(getattr(call.headers, "origin", None), "recording", None)
        return self._inner(call) if recording is None else self._record(call, recording)

    async def _record(self, call: Call, recording: PortRecording) -> Reply:
        recording.model = call.model
        recording.version = call.version or ""
        recording.principal = call.principal
        if call.dialect:
            recording.dialect = call.dialect

        def set_code(error: BaseException | None) -> None:
            recording.code = "" if error is None else kind_of_end(error)

        try:
            reply = await self._inner(call)
        except BaseException as error:
            set_code(error)
            raise
        return reply if reply.single else reply.watch(AtEnd(set_code))


def record(model: StagedModel, shared: StageContext) -> StagedModel:
    """Record a model's calls if the setting `record` is set."""
    if shared.settings.section(RecordSection).record is None:
        return model
    return model.around(RecordedCalls(model.handler), refuse=None)


def record_edge(parts: ServerParts) -> Recorder | None:
    """Return the edge that records requests, or None if recording is disabled.

    All servers of a process with the same settings share it. Raises InvalidSettings if the record file cannot
    be opened.
    """
    settings = parts.settings
    record = settings.section(RecordSection).record
    if record is None:
        return None
    return _recorder(record.model_dump_json(), tuple(settings.credential_headers), settings.server_name)


@cache
def _recorder(settings_json: str, credentials: tuple[str, ...], server_name: str) -> Recorder:
    settings = RecordSettings.model_validate_json(settings_json)
    hidden = CREDENTIALS.union(credentials, settings.redact)
    try:
        sink = EventSink(settings.url, settings.mode, server_name) if settings.url else None
        file = RecordFile(settings, hidden, sink)
    except OSError as error:
        raise InvalidSettings(f"record: {settings.path}: {error.strerror}") from None
    atexit.register(file.close)
    return Recorder(file, settings)
