"""`EngineStream`: one request at an engine, which another engine may continue."""

from collections.abc import Sequence
from uuid import uuid4

from inferstream import RequestContext, Token, Usage
from inferstream.errors import ModelError, WorkerLost
from inferstream.ext.telemetry import get_logger

from ..failover_settings import MAX_MOVES, Failover
from ..requests import ReadRequest
from ..spelling import TokenizerSpeller
from .engines import Engines
from .protocols.base import EngineFailed, EngineLost, EngineMessage, EngineProtocol
from .rpc.call import RpcCall
from .rpc.status import RpcError
from .target import EngineTarget, translate_error
from .tokenizer import FastTokenizer

logger = get_logger("runtimes")


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
        protocol: EngineProtocol,
        policy: Policy,
        tokenizer: FastTokenizer,
        ends: frozenset[int],
    ) -> None:
        self._read, self._context, self._streamed = read, context, streamed
        self._engines, self._protocol, self._policy = engines, protocol, policy
        self._speller = TokenizerSpeller(tokenizer)
        self._options = protocol.build_options(read, context.cache_salt)
        self._method = protocol.method(streamed)
        self._identifier = ""
        self._detokenizer = read.create_detokenizer(tokenizer.decode)
        sampling = read.sampling
        self._ends = (frozenset() if sampling.ignore_eos else ends).union(sampling.stop_token_ids)
        self._room = read.limit - len(read.prompt)
        self._written: list[int] = []
        self._plain = not sampling.logprobs
        self._opening = read.opening
        self._prompt_piece: EngineMessage | None = None
        self._prompt_logprobs = sampling.prompt_logprobs is not None
        self._last: Token | None = None
        """The last token, until the engine has reported the end."""
        self._target: EngineTarget | None = None
        self._call: RpcCall | None = None
        self._moves = 0
        self._complete = False
        """Whether the engine has reported the end of the text."""
        self.cached_tokens = 0
        self.ended = False
        self.resumed = False
        """Whether the text continues with other random numbers. The reader of the stream resets it."""

    async def receive(self) -> EngineMessage:
        """Return the next part of the text, from the next engine after a loss.

        Raises WorkerLost if the stream cannot continue, or another InferstreamError.
        """
        model = self._policy.model
        while True:
            try:
                if self._call is None:
                    await self._start()
                assert self._call is not None
                message = await self._call.read()
                if message is None:
                    raise ModelError(f"The engine of model {model} sent an incomplete text.", 500)
                return self._protocol.parse(message, self._streamed)
            except EngineFailed:
                raise ModelError(f"The engine of model {model} failed on the request.", 500) from None
            except RpcError as error:
                failure = translate_error(error, model)
                if not isinstance(failure, EngineLost):
                    raise failure from None
                self._move(str(failure))
            except EngineLost as error:
                self._move(str(error))

    async def _start(self) -> None:
        self._target = await self._engines.pick(self._policy.seconds if self._moves else 0)
        self._identifier = uuid4().hex
        request = self._protocol.build(
            self._read, self._options, self._identifier, self._written, self._streamed
        )
        self._call = await self._target.generate(self._method, request, self._context.time_remaining)

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

    async def receive_whole(self) -> Token:
        """Return the complete text of a response that is not streamed. Raises as `receive`."""
        piece = await self.receive()
        while self._protocol.streams_only and piece.finish_reason is None:
            moves = self._moves
            more = await self.receive()
            begun = piece.tokens if moves == self._moves else ()  # another engine begins again
            piece = more._replace(tokens=[*begun, *more.tokens])
        return self.take_whole(piece)

    def take(self, piece: EngineMessage) -> list[Token]:
        """Return the tokens of a part of the text. The last one has the finish reason."""
        if self._last is not None and piece.tokens:  # the engine does not know this end
            return [self._end("stop", self.cached_tokens)]
        if piece.prompt_logprobs and not piece.tokens:  # the prompt has a message of its own
            self._prompt_piece = piece
        first = not self._written
        tokens: list[Token] = []
        for token in piece.tokens:
            tokens.append(self._add(token))
            if self._last is not None:  # what follows an end is not part of the text
                break
        if tokens:
            self._add_facts(tokens, piece, first)
        if piece.finish_reason is not None:
            self._complete = True
            last = self._end(piece.finish_reason, piece.cached_tokens)
            return tokens if tokens and tokens[-1] is last else [*tokens, last]
        if tokens and tokens[-1] is self._last:
            tokens.pop()
        return tokens

    def _add_facts(self, tokens: list[Token], piece: EngineMessage, first: bool) -> None:
        """Set the usage and log probabilities of new tokens."""
        if not self._plain:
            self._add_logprobs(tokens, piece)
        if first:
            self.cached_tokens = piece.cached_tokens
            if self._opening:
                tokens[0].text, self._opening = f"{self._opening}{tokens[0].text!s}", ""
            prompt = self._prompt_piece or piece
            if self._prompt_logprobs and prompt.prompt_logprobs:
                tokens[0].prompt_logprobs = self._read_prompt(prompt)
        if first or self.resumed:
            tokens[0].usage = Usage(len(self._read.prompt))

    def _add(self, token: int) -> Token:
        self._written.append(token)
        if token in self._ends:
            self._last = Token("", token)
            return self._last
        added = Token(self._detokenizer.add(token), token)
        if len(self._written) == self._room:
            self._last = added
        return added

    def take_whole(self, piece: EngineMessage) -> Token:
        """Return the complete text of a response with all tokens."""
        ids = piece.tokens
        end = next((at for at, token in enumerate(ids) if token in self._ends), len(ids))
        text = f"{self._opening}{self._detokenizer.finish(ids[:end])}"
        self._written, self._complete = [*ids], True
        whole = self._end(piece.finish_reason or "stop", piece.cached_tokens)
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

    def _add_logprobs(self, tokens: Sequence[Token], piece: EngineMessage) -> None:
        """Set log probabilities. The engine leaves out tokens for which it has none."""
        most, index = self._read.sampling.top_logprobs, 0
        for token in tokens:
            if index < len(piece.logprobs) and piece.logprobs[index][0] == token.id:
                _, logprob, top = piece.logprobs[index]
                self._speller.add_logprobs(token, logprob, top[:most])
                index += 1

    def _read_prompt(self, piece: EngineMessage) -> list[tuple[str, float | None, dict[str, float]]]:
        most = self._read.sampling.prompt_logprobs or 0
        return self._speller.spell_prompt(
            [(token, logprob, top[:most]) for token, logprob, top in piece.prompt_logprobs]
        )

    def close(self) -> None:
        """End the call. The engine stops generating."""
        call, self._call = self._call, None
        if call is not None and self._target is not None:
            self._target.end(call, self._identifier, self._complete)
