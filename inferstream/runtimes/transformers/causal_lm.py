"""`CausalLM`: a language model read by transformers, whose streams share a cache and advance together."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from inferstream import Finished, ModelSettings, StepModel, Token, Usage, request_context
from inferstream.ext.runtimes import TORCH_LOADING, FrameworkModel
from inferstream.ext.telemetry import get_logger
from inferstream.ext.values import Description
from inferstream.plugins.llm.text_tensors import TEXT

from ...errors import InvalidRequest
from ...text.calls.formats import PARSERS, has_special_tokens
from ...text.context_length import ARCHITECTURE, CONTEXT_LENGTH, report_overflow
from ...text.detokenizer import REPLACEMENT, Detokenizer
from ...text.fields import refused
from ...text.inputs import MESSAGES, RESPONSE_FORMAT, TOKEN_IDS, TOOLS, field_of
from ...text.prompt_inputs import take_options, texts_of
from ...text.spelling import is_part, spell
from ...text.template import text_formats
from ...types import InferenceRequest
from ..grammars.beginnings import Beginnings
from ..huggingface_trust import pretrained
from ..sampling import Restrictions, Sampling, read_sampling
from .prompts import Prompts
from .settings import LanguageSettings
from .spelling import bytes_of, name_of
from .stream import TokenStream

logger = get_logger("runtimes")

EXTRA = "transformers"

TokenResult = Token | Finished | Exception | None
"""Result of a step for one stream: a token, none yet (None), the end, or the error that ends it."""

CONTEXT = 5
"""Last tokens of the prompt with which the first token of a text is decoded."""


class CausalLM(FrameworkModel, StepModel):
    """A causal language model: a folder with safetensors or a GGUF file, or a model at the Hugging Face hub.

    `parameters.uri` names the folder or file, `pretrained_model` in `parameters.extra` the model at the hub.
    It takes a prompt or chat messages, and streams one `Token` for each token.
    """

    permitted_call = pretrained(
        "AutoModelForCausalLM.from_pretrained",
        *("chat_template", "device", "dtype", "max_context", "max_tokens", "quantize", "sampling"),
    )
    gives_logprobs = takes_token_ids = True
    separates_principals = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._engine: Any = None
        self._forms: Any = None

    async def load(self) -> bool:
        settings = self._checked(LanguageSettings)
        source = await self._source(settings.pretrained_model)
        await asyncio.to_thread(self._open, source, settings)
        return True

    def _open(self, source: Path | str, settings: LanguageSettings) -> None:
        fixed = self._fixed_arguments(source)
        with self._importing():
            self._torch = self._import("torch", EXTRA)
            self._import("transformers", EXTRA)
            from . import engine, forms, loading
        try:
            self._torch.set_num_threads(self._processors())
            with TORCH_LOADING:
                opened = loading.open_model(source, settings, fixed)
        except Exception as error:  # frameworks raise what they like, and quote paths
            logger.error("model %s: transformers cannot read %s", self.name, source, exc_info=error)
            raise self._failed(_reason(error, Path(source))) from error
        on_cpu = opened.model.device.type == "cpu"
        budget = settings.prefill_budget or (128 if on_cpu else 2048)
        self._tokenizer = opened.tokenizer
        theirs = (
            not self.settings.trust_remote_code if isinstance(source, str) else bool(self._untrusted(source))
        )
        self._prompts = Prompts(opened.tokenizer, settings.chat_template, self.name if theirs else None)
        self._calls, reasoning = text_formats(self.settings, self._untrusted, self._prompts.template)
        self._prompts.reasoning = reasoning
        self._vocabulary: int = opened.model.config.get_text_config().vocab_size
        self._context, self._ends, self._sampling = opened.context, opened.ends, opened.sampling
        self._max_tokens, self._shares_prefixes = settings.max_tokens, settings.share_prefixes
        self._device = opened.model.device
        self._forms = forms.Forms(partial(loading.grammar_tokens, opened))
        self._beginnings = Beginnings(self._calls, self._forms.usable)
        self._engine = engine.Engine(opened.model, self.settings.max_active, budget, settings.prefix_tokens)
        if not self.inputs:
            self.inputs = self._prompts.inputs(tools=self._calls in PARSERS)
        if not self.outputs:
            self.outputs = [TEXT]
        facts = {CONTEXT_LENGTH: self._context, ARCHITECTURE: opened.model.config.model_type}
        self._description = Description(parameters=facts, formats=(self._calls, reasoning))

    def admit(self, request: InferenceRequest) -> TokenStream:
        parameters = request.parameters
        given = dict(parameters.items()) if parameters is not None else {}
        sampling = read_sampling(given, self._sampling, self._vocabulary)
        context = request_context()
        if context.single and (sampling.logprobs or sampling.prompt_logprobs is not None):
            raise refused("logprobs", "logprobs come with a stream only")
        texts = texts_of(request)
        tools, form, chat = texts.get(TOOLS), texts.pop(RESPONSE_FORMAT, None), MESSAGES in texts
        field = field_of(request.inputs, RESPONSE_FORMAT)
        options = take_options(texts)
        beginning = self._beginnings.of(given.get("tool_choice"), tools, form, chat, field)
        size = self._vocabulary if given.get(TOKEN_IDS) else 0
        if beginning.form is not None and sampling.min_tokens:
            raise refused("min_tokens", f"min_tokens is not taken with {beginning.name}, which ends the text")
        prompt, name, opening = self._prompts.read(texts, options, beginning.opening, size)
        prompt = prompt[-(sampling.truncate_prompt_tokens or 0) :]
        if len(prompt) >= self._context:
            raise report_overflow(name, len(prompt), self._context)
        most = sampling.max_tokens or self._max_tokens or self._context
        marked = has_special_tokens(self._calls, self._prompts.reasoning, tools is not None, chat)
        # Some models mark calls by special tokens.
        decode = partial(self._decode, skip=not marked and sampling.skip_special_tokens)
        detokenizer = Detokenizer(decode, prompt[-CONTEXT:])
        limit = min(len(prompt) + most, self._context)
        stream = TokenStream(prompt, limit, sampling, detokenizer, context.single)
        if not self._shares_prefixes:
            stream.salt = context.cache_salt
        stream.opening = opening
        if sampling.restricts:
            array = partial(self._torch.tensor, device=self._device)
            stream.restrictions = Restrictions(sampling, self._ends, self._prompts.tokens, array)
        if sampling.prompt_logprobs is not None:
            stream.scores = []
            stream.salt = uuid4().hex  # what another row holds of a prompt is not read
        if sampling.temperature > 0:
            stream.generator = self._generator(sampling)
        if beginning.form is not None:
            self._forms.begin(stream, beginning.form, beginning.name)
        self._engine.add(stream)
        return stream

    def step(self, states: Sequence[TokenStream]) -> Sequence[TokenResult]:
        # Without the streams that have no grammar yet, or a wrong form.
        waiting = self._forms.waiting
        failed = self._forms.settle(states) if waiting else {}
        left_out = failed.keys() | waiting.keys()
        choices = self._engine.step([state for state in states if state not in left_out])
        return [
            self._emission(state, choices[state]) if state in choices else failed.get(state)
            for state in states
        ]

    def release(self, state: TokenStream) -> None:
        self._forms.leave(state)
        self._engine.remove(state)

    async def unload(self) -> bool:
        self._engine = None
        if self._forms is not None:
            self._forms.close()
        return True

    def _emission(self, state: TokenStream, choice: Any) -> TokenResult:
        sampling = state.sampling
        ended = choice.token in self._ends and not sampling.ignore_eos
        complete = ended = ended or choice.token in sampling.stop_token_ids
        if state.writing is not None:
            try:
                complete = state.writing.take(choice.token) or ended
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
            token.logprob = choice.logprob
            if choice.logprob is not None:
                spelling = self._spell(choice.token)
                token.spelling = spelling if is_part(spelling) or REPLACEMENT in text else None
                token.top_logprobs = self._spelled(choice.top) if choice.top else None
            if state.scores is not None:
                scores, state.scores = [(state.tokens[0], None, None), *state.scores], None
                token.prompt_logprobs = [
                    (self._spell(each), it, self._spelled(top)) for each, it, top in scores
                ]
        if not over:
            if state.written == 1:
                token.usage = Usage(state.prompt_length)
            return token
        token.finish_reason = "stop" if complete else "length"
        token.usage = Usage(state.prompt_length, state.written)
        return Finished(token)

    def _decode(self, tokens: list[int], skip: bool = True) -> str:
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=skip, clean_up_tokenization_spaces=False
        )
        return text

    def _spell(self, token: int) -> str:
        return spell(bytes_of(self._tokenizer, token))

    def _spelled(self, top: Sequence[tuple[int, float]] | None) -> dict[str, float]:
        """The most likely tokens, each by its spelling, or by its name if another one is spelled so."""
        spelled: dict[str, float] = {}
        for token, logprob in top or ():
            spelling = self._spell(token)
            spelled[name_of(self._tokenizer, token) if spelling in spelled else spelling] = logprob
        return spelled

    def _generator(self, sampling: Sampling) -> Any:
        generator = self._torch.Generator(self._device)
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        return generator


def _reason(error: Exception, path: Path) -> str:
    """One line without the path; frameworks quote it, and clients may read why a model did not load."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".").replace(str(path), path.name).replace(str(path.parent), "its folder")
