"""Triton's sequences: requests that belong together run one after the other, in one worker."""

import asyncio

from inferstream.ext.calls import AtEnd, Call, Handler, Reply, StageContext, StagedModel
from inferstream.plugins.triton.settings import SequenceSettings

from ...errors import InvalidRequest, ModelLoadFailed, Overloaded
from ..sequence import OpenSequence

ID, START, END = "sequence_id", "sequence_start", "sequence_end"
"""Parameters of a request."""

MOST = 4096
"""Sequences of a model that are open at once."""

MOST_OF_ONE = MOST // 4
"""Open sequences of one principal, with keys."""

LONGEST = 128
"""Characters of an id."""

Key = tuple[str, int | str]
"""The principal, and the id: the sequences of one client are nobody else's."""


class Sequences:
    """Knows the open sequences of a model. One that is idle for `idle` seconds ends."""

    def __init__(self, inner: Handler, model: str, idle: float, length: int) -> None:
        """`length` requests of a sequence may wait or run."""
        self._inner = inner
        self._model = model
        self._idle = idle
        self._length = length
        self._open: dict[Key, OpenSequence] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, call: Call) -> Reply:
        key, starts, ends = self._asked(call)
        sequence = self._sequence(key, starts)
        if sequence.requests >= self._length:
            raise Overloaded(
                f"Sequence {key[1]!r} of model {self._model} has {self._length} requests already."
            )
        sequence.requests += 1
        try:
            await sequence.turn.acquire()
        except BaseException:  # cancelled
            self._done(key, sequence, ends=False)
            raise
        call.affinity = sequence
        try:
            reply = await self._inner(call)
        except BaseException:  # a cancelled call too
            self._leave(key, sequence, ends)
            raise
        return reply.watch(AtEnd(lambda _: self._leave(key, sequence, ends)))

    def _asked(self, call: Call) -> tuple[Key, bool, bool]:
        parameters = call.request.parameters
        said = (parameters and parameters.__pydantic_extra__) or {}
        name = said.get(ID, 0)
        if isinstance(name, bool) or not isinstance(name, int | str) or len(str(name)) > LONGEST:
            raise InvalidRequest(f'"{ID}" must be a number, or a text of at most {LONGEST} characters')
        if not name:
            raise InvalidRequest(f'Model {self._model} serves sequences: a request names its own by "{ID}".')
        return (call.principal or "", name), bool(said.get(START)), bool(said.get(END))

    def _sequence(self, key: Key, starts: bool) -> OpenSequence:
        """The sequence of a request, which begins anew where it `starts`. Raises InvalidRequest, Overloaded."""
        sequence = self._open.get(key)
        if starts:
            if sequence is None and len(self._open) >= MOST:
                raise Overloaded(f"Model {self._model} has {MOST} open sequences already.")
            if sequence is None and key[0] and sum(of == key[0] for of, _ in self._open) >= MOST_OF_ONE:
                raise Overloaded(
                    f"Model {self._model} has {MOST_OF_ONE} open sequences of this client already."
                )
            sequence = self._open[key] = OpenSequence()
            if self._timer is None:
                self._look_later()
        if sequence is None:
            raise InvalidRequest(
                f"Model {self._model} has no open sequence {key[1]!r}: its first request has {START}, and it ends "
                f"after {self._idle:g} s without a request."
            )
        return sequence

    def _leave(self, key: Key, sequence: OpenSequence, ends: bool) -> None:
        sequence.turn.release()
        self._done(key, sequence, ends)

    def _done(self, key: Key, sequence: OpenSequence, ends: bool) -> None:
        sequence.requests -= 1
        sequence.idle_since = asyncio.get_running_loop().time()
        if ends and self._open.get(key) is sequence:
            del self._open[key]

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle / 4, self._look)

    def _look(self) -> None:
        """Forget the sequences that are idle."""
        latest = asyncio.get_running_loop().time() - self._idle
        for key, sequence in [*self._open.items()]:
            if not sequence.requests and sequence.idle_since <= latest:
                del self._open[key]
        self._timer = None
        if self._open:
            self._look_later()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def sequences(model: StagedModel, shared: StageContext) -> StagedModel:
    """Off without `sequence_idle`. Raises ModelLoadFailed where a sequence would not meet its own state."""
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
