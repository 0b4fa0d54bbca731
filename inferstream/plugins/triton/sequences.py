"""Triton sequences: requests with shared state run one after another, in the same worker."""

import asyncio

from inferstream.errors import InvalidRequest, ModelLoadFailed, Overloaded
from inferstream.ext.calls import AtEnd, Call, Handler, Reply, StageContext, StagedModel

from .open_sequence import OpenSequence
from .settings import SequenceSettings

ID, START, END = "sequence_id", "sequence_start", "sequence_end"
"""Request parameters."""

MAX_SEQUENCES = 4096
"""Maximum number of open sequences per model."""

MAX_SEQUENCES_PER_CLIENT = MAX_SEQUENCES // 4
"""Maximum number of open sequences per authenticated principal."""

MAX_ID_LENGTH = 128
"""Maximum length of a sequence id in characters."""

Key = tuple[str, int | str]
"""Principal and sequence id. Clients can use only the sequences that they started."""


class Sequences:
    """The open sequences of a model. A sequence expires after `idle` seconds without a request."""

    def __init__(self, inner: Handler, model: str, idle: float, length: int) -> None:
        """`length` is the maximum number of waiting and running requests of a sequence."""
        self._inner = inner
        self._model = model
        self._idle = idle
        self._length = length
        self._open: dict[Key, OpenSequence] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, call: Call) -> Reply:
        key, starts, ends = self._read_sequence(call)
        sequence = self._sequence(key, starts)
        if sequence.requests >= self._length:
            raise Overloaded(
                f"Sequence {key[1]!r} of model {self._model} has {self._length} requests already."
            )
        sequence.requests += 1
        try:
            await sequence.turn.acquire()
        except BaseException:  # The call was cancelled.
            self._finish_request(key, sequence, ends=False)
            raise
        call.affinity = sequence
        try:
            reply = await self._inner(call)
        except BaseException:  # This includes cancellation.
            self._release_turn(key, sequence, ends)
            raise
        return reply.watch(AtEnd(lambda _: self._release_turn(key, sequence, ends)))

    def _read_sequence(self, call: Call) -> tuple[Key, bool, bool]:
        parameters = call.request.parameters
        said = (parameters and parameters.__pydantic_extra__) or {}
        name = said.get(ID, 0)
        if isinstance(name, bool) or not isinstance(name, int | str) or len(str(name)) > MAX_ID_LENGTH:
            raise InvalidRequest(f'"{ID}" must be a number, or a text of at most {MAX_ID_LENGTH} characters')
        if not name:
            raise InvalidRequest(f'Model {self._model} serves sequences: a request names its own by "{ID}".')
        return (call.principal or "", name), bool(said.get(START)), bool(said.get(END))

    def _sequence(self, key: Key, starts: bool) -> OpenSequence:
        """Return the sequence of a request. If the request `starts` one, it is created or replaced.

        Raises InvalidRequest or Overloaded.
        """
        sequence = self._open.get(key)
        if starts:
            if sequence is None and len(self._open) >= MAX_SEQUENCES:
                raise Overloaded(f"Model {self._model} has {MAX_SEQUENCES} open sequences already.")
            if (
                sequence is None
                and key[0]
                and sum(of == key[0] for of, _ in self._open) >= MAX_SEQUENCES_PER_CLIENT
            ):
                raise Overloaded(
                    f"Model {self._model} has {MAX_SEQUENCES_PER_CLIENT} open sequences of this client already."
                )
            sequence = self._open[key] = OpenSequence()
            if self._timer is None:
                self._schedule_cleanup()
        if sequence is None:
            raise InvalidRequest(
                f"Model {self._model} has no open sequence {key[1]!r}: its first request has {START}, and it ends "
                f"after {self._idle:g} s without a request."
            )
        return sequence

    def _release_turn(self, key: Key, sequence: OpenSequence, ends: bool) -> None:
        sequence.turn.release()
        self._finish_request(key, sequence, ends)

    def _finish_request(self, key: Key, sequence: OpenSequence, ends: bool) -> None:
        sequence.requests -= 1
        sequence.idle_since = asyncio.get_running_loop().time()
        if ends and self._open.get(key) is sequence:
            del self._open[key]

    def _schedule_cleanup(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle / 4, self._remove_stale)

    def _remove_stale(self) -> None:
        """Remove expired sequences."""
        latest = asyncio.get_running_loop().time() - self._idle
        for key, sequence in [*self._open.items()]:
            if not sequence.requests and sequence.idle_since <= latest:
                del self._open[key]
        self._timer = None
        if self._open:
            self._schedule_cleanup()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def add_sequence_stage(model: StagedModel, shared: StageContext) -> StagedModel:
    """Enable sequences for a model with `sequence_idle`.

    Raises ModelLoadFailed if there are several front ends.
    """
    settings = model.settings
    idle = settings.section(SequenceSettings).sequence_idle
    if idle is None:
        return model
    if shared.settings.frontends > 1:
        raise ModelLoadFailed(
            f"Model {settings.name} did not load: sequence_idle needs frontends 1, because the requests of a sequence "
            "may come over different front ends."
        )
    handler = Sequences(model.handler, settings.name, idle, max(1, settings.max_queue))
    return model.around(handler, at_retirement=(*model.at_retirement, handler.close))
