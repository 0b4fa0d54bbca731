"""`EngineStream`: one request at an engine, which another engine may continue."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from inferstream import RequestContext, Token, Usage
from inferstream.errors import ModelError, WorkerLost
from inferstream.ext.telemetry import get_logger

from ..requests import ReadRequest
from ..spelling import TokenizerSpeller
from . import protos
from .engines import Engines
from .rpc.call import Call
from .rpc.status import CallFailed
from .sampling import build_sampling
from .settings import Failover
from .target import EngineLost, EngineTarget, translate_error
from .tokenizer import FastTokenizer

logger = get_logger("runtimes")

MAX_MOVES = 2
"""Maximum number of engines that may be lost during a request, because the request may be the cause."""

Top = Sequence[tuple[int, float]]


class Policy:
    """When streams continue at another engine, and for how many seconds they wait for one."""

    def __init__(self, model: str, failover: Failover, seconds: float) -> None:
        self.model, self.failover, self.seconds = model, failover, seconds

    def can_move(self, read: ReadRequest, written: bool) -> bool:
        """Return whether a request may continue. `written`: whether the client has a part of the text.

        The state of a grammar, and counts of written tokens, cannot be restored.
        """
        sampling = read.sampling
        if self.failover == "off" or not written:
            return self.failover != "off"
        if read.beginning.form is not None or sampling.presence_penalty or sampling.frequency_penalty:
            return False
        return self.failover == "always" or not sampling.temperature or sampling.seed is not None


class EngineStream:
    """A request and its text so far. Raises InvalidRequest for options that the engine does not have."""

    def __init__(
        self,
        read: ReadRequest,
        context: RequestContext,
        streamed: bool,
        engines: Engines,
        policy: Policy,
        tokenizer: FastTokenizer,
        ends: frozenset[int],
    ) -> None:
        self._read, self._context, self._streamed = read, context, streamed
        self._engines, self._policy = engines, policy
        self._speller = TokenizerSpeller(tokenizer)
        self._sampling = build_sampling(read)
        self._detokenizer = read.create_detokenizer(tokenizer.decode)
        sampling = read.sampling
        self._ends = (frozenset() if sampling.ignore_eos else ends).union(sampling.stop_token_ids)
        self._room = read.limit - len(read.prompt)
        self._written: list[int] = []
        self._plain = not sampling.logprobs
        self._opening = read.opening
        self._prompt_logprobs = sampling.prompt_logprobs is not None
        self._last: Token | None = None
        """The last token, until the engine has reported the end."""
        self._target: EngineTarget | None = None
        self._call: Call | None = None
        self._moves = 0
        self.cached_tokens = 0
        self.ended = False
        self.resumed = False
        """Whether the text continues with other random numbers. The reader of the stream resets it."""

    async def receive(self) -> Any:
        """Return the next message of the engine, or of the next engine after a loss.

        Raises WorkerLost if the stream cannot continue, or another InferstreamError.
        """
        while True:
            try:
                if self._call is None:
                    self._target = await self._engines.pick(self._policy.seconds if self._moves else 0)
                    self._call = await self._target.generate(self._build(), self._context.time_remaining)
                return _check(await self._call.read(), self._policy.model)
            except CallFailed as error:
                failure = translate_error(error, self._policy.model)
                if not isinstance(failure, EngineLost):
                    raise failure from None
                self._move(str(failure))
            except EngineLost as error:
                self._move(str(error))

    def _move(self, reason: str) -> None:
        """Prepare to continue at another engine. Raises WorkerLost if that is impossible."""
        self.close()
        if self._target is not None:
            self._engines.suspect(self._target)
            self._target = None
        self._moves += 1
        if self._moves > MAX_MOVES or not self._policy.can_move(self._read, bool(self._written)):
            raise WorkerLost(f"The engine of model {self._policy.model} was lost: {reason}.")
        sampling = self._read.sampling
        self.resumed = bool(self._written and sampling.temperature and sampling.seed is None)
        logger.warning(
            "model %s: a request continues after %d tokens: %s",
            self._policy.model,
            len(self._written),
            reason,
        )

    def _build(self) -> Any:
        """Return the request for the tokens that are not written yet."""
        written = len(self._written)
        request = protos.Generate(
            request_id=uuid4().hex, stream=self._streamed, sampling_params=self._sampling
        )
        request.tokenized.input_ids.extend(self._read.prompt)
        request.tokenized.input_ids.extend(self._written)
        request.sampling_params.max_tokens = self._room - written
        if written:
            request.sampling_params.min_tokens = max(self._read.sampling.min_tokens - written, 0)
            request.sampling_params.ClearField("prompt_logprobs")
        return request

    def take(self, message: Any) -> list[Token]:
        """Return the tokens of a message. The last one has the finish reason."""
        if not message.HasField("chunk"):
            return [self._end(message.complete.finish_reason, message.complete.cached_tokens)]
        if self._last is not None:  # the engine does not know this end
            return [self._end("stop", self.cached_tokens)]
        chunk = message.chunk
        first = not self._written
        tokens = [self._add(token) for token in chunk.token_ids]
        if not self._plain and chunk.HasField("output_logprobs"):
            self._add_logprobs(tokens, chunk.output_logprobs)
        if first and tokens:
            self.cached_tokens = chunk.cached_tokens
            tokens[0].usage = Usage(len(self._read.prompt))
            if self._opening:
                tokens[0].text, self._opening = f"{self._opening}{tokens[0].text!s}", ""
            if self._prompt_logprobs and chunk.HasField("input_logprobs"):
                tokens[0].prompt_logprobs = self._read_prompt(chunk.input_logprobs)
        if self.resumed and tokens:
            tokens[0].usage = Usage(len(self._read.prompt))
        if self._last is not None:
            tokens.remove(self._last)
        return tokens

    def _add(self, token: int) -> Token:
        self._written.append(token)
        if token in self._ends:
            self._last = Token("", token)
            return self._last
        added = Token(self._detokenizer.add(token), token)
        if len(self._written) == self._room:
            self._last = added
        return added

    def take_whole(self, message: Any) -> Token:
        """Return the complete text of a message that holds all tokens."""
        ids = message.complete.output_ids
        end = next((at for at, token in enumerate(ids) if token in self._ends), len(ids))
        text = f"{self._opening}{self._detokenizer.finish(ids[:end])}"
        self._written = [*ids]
        whole = self._end(message.complete.finish_reason, message.complete.cached_tokens)
        whole.text, whole.id = text, None
        return whole

    def _end(self, reason: str, cached: int) -> Token:
        """Return the last token, with the rest of the text."""
        self.ended, self.cached_tokens = True, cached or self.cached_tokens
        last = self._last or Token()
        last.text = f"{self._opening}{last.text!s}{self._detokenizer.flush()}"
        last.finish_reason = "length" if reason == "length" else "stop"
        last.usage = Usage(len(self._read.prompt), len(self._written))
        return last

    def _add_logprobs(self, tokens: Sequence[Token], scores: Any) -> None:
        """Set log probabilities. The engine leaves out tokens for which it has none."""
        most, index = self._read.sampling.top_logprobs, 0
        for token in tokens:
            if index < len(scores.token_ids) and scores.token_ids[index] == token.id:
                top = _sort_top(scores.top_logprobs[index], most) if index < len(scores.top_logprobs) else ()
                self._speller.add_logprobs(token, scores.token_logprobs[index], top)
                index += 1

    def _read_prompt(self, scores: Any) -> list[tuple[str, float | None, dict[str, float]]]:
        most, tops = self._read.sampling.prompt_logprobs or 0, scores.top_logprobs
        values = [each.value if each.HasField("value") else None for each in scores.token_logprobs]
        likely = [_sort_top(tops[at], most) if at < len(tops) else () for at in range(len(values))]
        return self._speller.spell_prompt([*zip(scores.token_ids, values, likely, strict=True)])

    def close(self) -> None:
        """End the call. The engine stops generating."""
        call, self._call = self._call, None
        if call is not None and self._target is not None:
            self._target.calls.discard(call)
            call.cancel()


def _check(message: Any, model: str) -> Any:
    """Return the message, unless it reports a failure. Raises EngineLost or ModelError."""
    if message is None:
        raise ModelError(f"The engine of model {model} sent an incomplete text.", 500)
    if message.HasField("complete"):
        reason = message.complete.finish_reason
        if reason == "abort":
            raise EngineLost("it aborted the request")
        if reason == "error":
            raise ModelError(f"The engine of model {model} failed on the request.", 500)
    return message


def _sort_top(top: Any, most: int) -> Top:
    pairs = zip(top.token_ids, top.values, strict=True)
    return sorted(pairs, key=lambda pair: -pair[1])[:most]
