"""`LanguageModel`: the streams of a language model, whatever library computes the logits."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

from inferstream import Finished, StepModel, Token, Usage, request_context
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import FrameworkModel
from inferstream.plugins.text.fields import field_error
from inferstream.types import InferenceRequest, InferenceResponse

from .failover_settings import FAILOVER_TIMEOUT, FailoverSettings
from .grammars.forms import Forms
from .requests import GenerationReader, ReadRequest
from .responses import RESUMED, build_response
from .sampling import WRITTEN, Restrictions, Sampling
from .spelling import Speller
from .text_tensors import TEXT
from .token_stream import ChosenToken, TokenStream

Item = Token | InferenceResponse

TokenResult = Item | Finished | Exception | None
"""Result of a step for one stream: a token, None if there is none yet, the end, or an error."""


class StreamEngine(Protocol):
    """Advances streams over a shared cache."""

    def add(self, stream: TokenStream) -> None: ...

    def remove(self, stream: TokenStream) -> None: ...

    def step(self, streams: Sequence[TokenStream]) -> Mapping[TokenStream, ChosenToken | Exception]: ...


class LanguageModel(FrameworkModel, StepModel):
    """A language model whose streams advance together.

    It accepts a prompt or chat messages, and streams one `Token` per token. `load` of a subclass sets the
    attributes below.
    """

    gives_logprobs = takes_token_ids = True
    separates_principals = True

    continues_formats = True
    """Whether a stream with a grammar or penalties can continue after tokens that another one has generated."""

    _failover: FailoverSettings
    _engine: StreamEngine
    _forms: Forms
    _reader: GenerationReader
    _speller: Speller
    _ends: frozenset[int]
    """End tokens."""
    _shares_prefixes: bool

    @abstractmethod
    def _decode(self, tokens: list[int], skip: bool = True) -> str:
        """Return the text of tokens. If `skip` is true, special tokens have none."""

    @abstractmethod
    def _array(self, values: Any) -> Any:
        """Return an array that can index and change the logits."""

    @abstractmethod
    def _generator(self, sampling: Sampling) -> Any:
        """Return the random generator of a stream."""

    def _describe(self, architecture: str) -> None:
        """Set the inputs, the outputs and the description of the loaded model."""
        self.inputs = self.inputs or self._reader.inputs()
        self.outputs = self.outputs or [TEXT]
        self._description = description = self._reader.describe(architecture)
        if self._failover.failover != "off":
            seconds = {FAILOVER_TIMEOUT: self._failover.failover_timeout}
            self._description = replace(description, parameters={**description.parameters, **seconds})

    def admit(self, request: InferenceRequest) -> TokenStream:
        context = request_context()
        read = self._reader.read(request, context.single)
        sampling, form = read.sampling, read.beginning.form
        detokenizer = read.create_detokenizer(self._decode)
        stream = TokenStream(read.prompt, read.limit, sampling, detokenizer, context.single)
        if not self._shares_prefixes:
            stream.salt = context.cache_salt
        stream.opening = read.opening
        if sampling.restricts:
            stream.restrictions = Restrictions(sampling, self._ends, self._reader.prompts.tokens, self._array)
        if sampling.prompt_logprobs is not None:
            stream.scores = []
            stream.salt = uuid4().hex  # unique, so the whole prompt is computed
        if sampling.temperature > 0:
            stream.generator = self._generator(sampling)
        if read.written:
            self._resume(stream, read)
        if form is not None:
            self._forms.begin(stream, form, read.beginning.name)
        self._engine.add(stream)
        return stream

    def _resume(self, stream: TokenStream, read: ReadRequest) -> None:
        """Continue after the tokens in a request. Raises InvalidRequest if the rest would differ."""
        sampling, failover = read.sampling, self._failover.failover
        sampled = sampling.temperature > 0 and sampling.seed is None
        if failover == "off" or (sampled and failover != "always"):
            needed = "always" if sampled else "greedy"
            raise field_error(
                WRITTEN, f"{WRITTEN} is not taken for this request, unless failover is {needed}"
            )
        penalties = sampling.presence_penalty or sampling.frequency_penalty
        if not self.continues_formats and (read.beginning.form is not None or penalties):
            raise field_error(WRITTEN, f"{WRITTEN} is not taken with a format or penalties")
        stream.resume(read.written)
        stream.opening, stream.scores, stream.announces = "", None, sampled
        if stream.generator is not None:
            self._skip_draws(stream.generator, len(read.written))

    def _skip_draws(self, generator: Any, count: int) -> None:
        """Advance a random generator by the draws of `count` tokens, if the library permits it."""

    def step(self, states: Sequence[TokenStream]) -> Sequence[TokenResult]:
        # Leave out streams whose grammar is not ready or is invalid.
        waiting = self._forms.waiting
        failed = self._forms.assign_grammars(states) if waiting else {}
        left_out = failed.keys() | waiting.keys()
        choices = self._engine.step([state for state in states if state not in left_out])
        return [
            self._build_emission(state, choices[state]) if state in choices else failed.get(state)
            for state in states
        ]

    def release(self, state: TokenStream) -> None:
        self._forms.remove(state)
        self._engine.remove(state)

    async def unload(self) -> bool:
        if hasattr(self, "_engine"):
            del self._engine
            self._forms.close()
        return True

    def _build_emission(self, state: TokenStream, choice: ChosenToken | Exception) -> TokenResult:
        if isinstance(choice, Exception):
            return choice
        sampling = state.sampling
        ended = choice.token in self._ends and not sampling.ignore_eos
        complete = ended = ended or choice.token in sampling.stop_token_ids
        if state.writing is not None:
            try:
                complete = state.writing.add_token(choice.token) or ended
            except InvalidRequest as error:
                return error
        full = len(state.tokens) >= state.limit
        text = "" if ended else state.detokenizer.add(choice.token)
        over = complete or full
        if over:
            text += state.detokenizer.flush()
        if state.opening:
            text, state.opening = state.opening + text, ""
        if state.pieces is not None:
            state.pieces.append(text)
            if not over:
                return None
            text = "".join(state.pieces)
        token = Token(text)
        if state.pieces is None:
            token.id = choice.token
            if choice.logprob is not None:
                self._speller.add_logprobs(token, choice.logprob, choice.top)
            if state.scores is not None:
                scores, state.scores = [(state.tokens[0], None, None), *state.scores], None
                token.prompt_logprobs = self._speller.spell_prompt(scores)
        if over:
            token.finish_reason = "stop" if complete else "length"
            token.usage = Usage(state.prompt_length, state.written)
        elif state.written == 1:
            token.usage = Usage(state.prompt_length)
        item: Item = token
        if state.announces:
            state.announces = False
            item = build_response(self.name, self.version, self.outputs[0], token, {RESUMED: True})
        return Finished(item) if over else item
