"""The stage that tells a recording of the calls in it, and the edge that begins the recording."""

import atexit
from collections.abc import Awaitable
from functools import cache

from inferstream.ext.calls import AtEnd, Call, Handler, Reply, ServerParts, StageContext, StagedModel
from inferstream.ext.telemetry import kind_of_end

from ..errors import InvalidSettings
from ..settings.record import RecordSection, RecordSettings
from .events import EventSink
from .file import RecordFile
from .ports import Recorder
from .recording import CREDENTIALS, PortRecording


class RecordedCalls:
    """Writes the model, the client and the end of each call into its recording."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def __call__(self, call: Call) -> Awaitable[Reply]:
        recording = getattr(getattr(call.headers, "origin", None), "recording", None)
        return self._inner(call) if recording is None else self._recorded(call, recording)

    async def _recorded(self, call: Call, recording: PortRecording) -> Reply:
        recording.model = call.model
        recording.version = call.version or ""
        recording.principal = call.principal
        if call.dialect:
            recording.dialect = call.dialect

        def ended(error: BaseException | None) -> None:
            recording.code = "" if error is None else kind_of_end(error)

        try:
            reply = await self._inner(call)
        except BaseException as error:
            ended(error)
            raise
        return reply if reply.single else reply.watch(AtEnd(ended))


def record(model: StagedModel, shared: StageContext) -> StagedModel:
    """Off without the setting `record`."""
    if shared.settings.section(RecordSection).record is None:
        return model
    return model.around(RecordedCalls(model.handler), refuse=None)


def record_edge(parts: ServerParts) -> Recorder | None:
    """The edge of a server; one of the process for all its servers. Raises InvalidSettings."""
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
