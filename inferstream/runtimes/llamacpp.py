"""Language models in GGUF files, by llama.cpp: a prompt or chat messages in, tokens out."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from inferstream import ModelSettings, Token, Usage, request_context
from inferstream.ext.runtimes import FrameworkModel, PermittedCall
from inferstream.ext.telemetry import get_logger
from inferstream.ext.values import Description
from inferstream.plugins.llm.text_tensors import TEXT, text_inputs

from ..errors import Cancelled
from ..text.calls.formats import PARSERS, has_special_tokens
from ..text.calls.thinking import begin_answer
from ..text.chat_prompts import ChatPrompts
from ..text.context_length import ARCHITECTURE, CONTEXT_LENGTH, report_overflow
from ..text.fields import refused
from ..text.inputs import MESSAGES, RESPONSE_FORMAT, TEMPLATE_OPTIONS, TOKEN_IDS, TOOLS, field_of
from ..text.limited_template import LimitedTemplate
from ..text.prompt_inputs import take_options, texts_of, write_prompt
from ..text.spelling import spell
from ..text.template import Template, text_formats
from ..types import InferenceRequest
from .grammars.beginnings import Beginnings
from .grammars.matching import FormedText, Grammars
from .sampling import Restrictions, Sampling, read_sampling, read_tokens

logger = get_logger("runtimes")

EXTRA = "llamacpp"
PACKAGE = "llama_cpp"
TEMPLATE = "tokenizer.chat_template"
"""Where a GGUF file holds its chat template."""

DEFAULT = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
"""The sampling of requests that give no parameters: that of llama.cpp."""

SEEDS = 2**32 - 1
"""The number itself stands for a seed that llama.cpp draws."""


class NamedFormat(ChatPrompts):
    """A chat format of llama-cpp-python, which takes messages and tools alone."""

    def __init__(self, format: Callable[..., Any]) -> None:
        super().__init__("")
        self._format = format

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        tools = {} if TOOLS not in variables else {TOOLS: variables[TOOLS]}
        return str(self._format(messages=messages, **tools).prompt)


class LlamaSettings(BaseModel):
    """`parameters.extra` of a GGUF model."""

    model_config = ConfigDict(extra="forbid")

    n_ctx: int = Field(4096, ge=1)
    """Tokens of prompt and text together, at most as many as the model was trained with."""
    n_threads: int | None = Field(None, ge=1)
    """Threads of one run; else the processors of this process."""
    n_gpu_layers: int = 0
    """Layers on the GPU; -1 for all."""
    share_prefixes: bool = False
    """Whether prompts of different principals reuse each other's prefixes, which shows in their times."""
    chat_format: str | None = None
    """A chat format of llama-cpp-python, such as `chatml`; else the template in the file."""


class LlamaCppModel(FrameworkModel):
    """A context of llama.cpp, which advances one text at a time; further requests wait in the queue."""

    permitted_call = PermittedCall(
        "llama_cpp.Llama", frozenset([".gguf"]), frozenset(["chat_format", "n_ctx", "n_gpu_layers"])
    )
    gives_logprobs = takes_token_ids = True
    separates_principals = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if (settings.threads or 1) > 1 or (settings.max_concurrency or 1) > 1:
            raise self._failed(
                "a context of llama.cpp advances one text at a time; threads and max_concurrency have to be 1, "
                "and parallel_workers gives more contexts"
            )
        settings.threads = 1
        self._llama: Any = None
        self._format: ChatPrompts | None = None
        self._salt = ""
        """Whose prompt the context holds."""

    async def load(self) -> bool:
        settings = self._checked(LlamaSettings)
        path = self._file(Path(await self._source(None, ("model.gguf",))))
        await asyncio.to_thread(self._open, path, settings)
        if not self.inputs:
            chats = [MESSAGES, *([TOOLS] if self._calls in PARSERS else []), TEMPLATE_OPTIONS]
            names = ["prompt", *([] if self._format is None else chats)]
            self.inputs = text_inputs(*names, RESPONSE_FORMAT)
        if not self.outputs:
            self.outputs = [TEXT]
        architecture = self._llama.all_metadata.get("general.architecture", "")
        facts = {CONTEXT_LENGTH: self._context, ARCHITECTURE: architecture}
        self._description = Description(parameters=facts, formats=(self._calls, self._reasoning))
        return True

    async def unload(self) -> bool:
        if self._llama is not None:
            self._grammars.close()
            await asyncio.to_thread(self._llama.close)
            self._llama = None
        return True

    def predict(self, payload: InferenceRequest) -> Token:
        """The whole text. Stops between two tokens once nobody waits any more."""
        if payload.parameters is not None and payload.parameters.get("logprobs"):
            raise refused("logprobs", "logprobs come with a stream only")
        context, pieces, last = request_context(), [], Token()
        for last in self._tokens(payload):
            if context.cancelled:
                raise Cancelled
            text = last.text
            pieces.append(text if isinstance(text, bytes) else text.encode())
        return Token(b"".join(pieces), finish_reason=last.finish_reason, usage=last.usage)

    def predict_stream(self, payloads: Iterable[InferenceRequest]) -> Iterator[Token]:
        for payload in payloads:
            yield from self._tokens(payload)

    def _tokens(self, request: InferenceRequest) -> Iterator[Token]:
        """The tokens of a text; the last one holds the end, and no text if the model ended it."""
        parameters = request.parameters
        given = {} if parameters is None else dict(parameters.items())
        sampling = read_sampling(given, DEFAULT, self._llama.n_vocab())
        if sampling.prompt_logprobs is not None:
            raise refused("echo", "echo has no logprobs: llama.cpp gives none of a prompt")
        texts = texts_of(request)
        tools, form, chat = texts.get(TOOLS), texts.get(RESPONSE_FORMAT), MESSAGES in texts
        field, options = field_of(request.inputs, RESPONSE_FORMAT), take_options(texts)
        opening, form, asked = self._beginnings.of(given.get("tool_choice"), tools, form, chat, field)
        name, prompt, begun = self._prompt(texts, options, opening)
        if given.get(TOKEN_IDS) and name == "prompt":
            numbers = texts.get(name) or ""
            prompt = read_tokens(name, numbers, self._llama.n_vocab(), len(numbers))
        prompt = prompt[-(sampling.truncate_prompt_tokens or 0) :]
        special = has_special_tokens(self._calls, self._reasoning, tools is not None, chat)
        special = special or not sampling.skip_special_tokens
        room = self._context - len(prompt)
        if room < 1:
            raise report_overflow(name, len(prompt), self._context)
        limit = min(room, sampling.max_tokens or room)
        written: list[int] = []
        writing: FormedText | None = None
        if form is not None:
            if sampling.min_tokens:
                raise refused("min_tokens", f"min_tokens is not taken with {asked}, which ends the text")
            writing = FormedText(self._grammars.begin(form, asked).result().deep_copy(), asked)
        generated = self._generated(prompt, written, sampling, writing)
        try:
            for token in generated:
                if (not sampling.ignore_eos and self._ends(token)) or token in sampling.stop_token_ids:
                    yield Token(begun, finish_reason="stop", usage=Usage(len(prompt), len(written)))
                    return
                logprob, top = self._logprobs(token, sampling)
                text = self._llama.detokenize([token], prev_tokens=prompt + written, special=special)
                text, begun = begun.encode() + text, ""
                written.append(token)
                complete = writing is not None and writing.take(token)
                if complete or len(written) == limit:
                    reason, usage = "stop" if complete else "length", Usage(len(prompt), len(written))
                    yield Token(text, token, logprob, top_logprobs=top, finish_reason=reason, usage=usage)
                    return
                first = Usage(len(prompt)) if len(written) == 1 else None
                yield Token(text, token, logprob, top_logprobs=top, usage=first)
        finally:
            generated.close()

    def _generated(
        self, prompt: list[int], written: list[int], sampling: Sampling, writing: FormedText | None
    ) -> Any:
        """The library's generator, which keeps what this prompt shares with the one before of its principal."""
        seed = random.randrange(SEEDS) if sampling.seed is None else sampling.seed % SEEDS
        self._llama.set_seed(seed)
        salt = "" if self._shares_prefixes else request_context().cache_salt
        if salt != self._salt:
            self._llama.reset()
            self._salt = salt
        processors = [] if writing is None else [writing.restricted]
        if sampling.restricts:
            tokenize = partial(self._llama.tokenize, add_bos=False)
            ends = filter(self._ends, range(self._llama.n_vocab())) if sampling.min_tokens else ()
            rules = Restrictions(sampling, ends, lambda text: tokenize(text.encode()), np.array)
            processors.insert(0, lambda _, logits: rules.apply(logits, prompt + written, len(written)))
        return self._llama.generate(
            prompt,
            temp=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repetition_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            logits_processor=processors or None,
        )

    def _logprobs(self, token: int, sampling: Sampling) -> tuple[float | None, dict[str, float] | None]:
        """The log probability of the token that was just chosen, before temperature and cuts, and the highest."""
        if not sampling.logprobs:
            return None, None
        size = self._llama.n_vocab()
        pointer = self._library.llama_get_logits_ith(self._llama.ctx, -1)
        logits = np.ctypeslib.as_array(pointer, shape=(size,)).astype(np.float64)
        logits -= logits.max()
        logprobs = logits - np.log(np.exp(logits).sum())
        if not sampling.top_logprobs:
            return float(logprobs[token]), None
        highest = np.argsort(logprobs)[: -sampling.top_logprobs - 1 : -1]
        return float(logprobs[token]), {self._shown(int(each)): float(logprobs[each]) for each in highest}

    def _shown(self, token: int) -> str:
        return spell(self._llama.detokenize([token], special=True))

    def _prompt(
        self, texts: Mapping[str, str], options: dict[str, Any], opening: str | None
    ) -> tuple[str, list[int], str]:
        """The input that was given, its tokens and the beginning of the text. `opening` is that of the answer."""
        messages, prompt = texts.get(MESSAGES), texts.get("prompt")
        if (messages is None) == (prompt is None):
            raise refused("prompt", "the model takes either a prompt or messages")
        if messages is None:
            return "prompt", self._llama.tokenize(str(prompt).encode(), special=True), ""
        written = write_prompt(self._format, messages, options)
        added, begun = begin_answer(written, self._reasoning, opening)
        # Templates write the token of the beginning themselves.
        starts = isinstance(self._format, NamedFormat)
        tokens = self._llama.tokenize((written + added).encode(), add_bos=starts, special=True)
        return "messages", tokens, begun

    def _tokens_of_grammars(self) -> Any:
        from llguidance.llamacpp import lltokenizer_from_vocab

        size = self._llama.n_vocab()
        return lltokenizer_from_vocab(self._vocabulary, size, [*filter(self._ends, range(size))])

    def _ends(self, token: int) -> bool:
        return bool(self._library.llama_vocab_is_eog(self._vocabulary, token))

    def _file(self, source: Path) -> Path:
        """The file of the model: that of `parameters.uri`, or the only one in its folder, or the first of its parts."""
        if source.is_file():
            return source
        files = [path for path in sorted(source.glob("*.gguf")) if not path.name.startswith("mmproj")]
        parts = [path for path in files if "-00001-of-" in path.name]
        if len(parts or files) == 1:
            return (parts or files)[0]
        if not files:
            raise self._failed("its folder holds no .gguf file")
        names = ", ".join(path.name for path in files)
        raise self._failed(f"its folder holds {names}; parameters.uri has to name one")

    def _open(self, path: Path, settings: LlamaSettings) -> None:
        self._fixed_arguments(path)
        with self._importing():
            library = self._import(PACKAGE, EXTRA)
        try:
            llama = _untemplated(library.Llama)(
                str(path),
                n_ctx=settings.n_ctx,
                n_threads=settings.n_threads or self._processors(),
                n_threads_batch=settings.n_threads or self._processors(),
                n_gpu_layers=settings.n_gpu_layers,
                verbose=False,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise self._unreadable(path, f"llama.cpp ({PACKAGE} {library.__version__})", error) from error
        self._library, self._llama = library, llama
        template = None if settings.chat_format is not None else llama.all_metadata.get(TEMPLATE)
        self._calls, self._reasoning = text_formats(self.settings, self._untrusted, template)
        self._vocabulary = library.llama_model_get_vocab(llama.model)
        self._grammars = Grammars(self._tokens_of_grammars)
        self._beginnings = Beginnings(self._calls, self._grammars.usable)
        self._shares_prefixes = settings.share_prefixes
        self._context = min(llama.n_ctx(), library.llama_model_n_ctx_train(llama.model))
        self._format = self._formatter(settings.chat_format, template, self._untrusted(path) is not None)

    def _formatter(self, name: str | None, template: str | None, limited: bool) -> ChatPrompts | None:
        """What makes a prompt of messages, `limited` if the file's author is not trusted; None without a template."""
        formats: Any = self._library.llama_chat_format
        if name is not None:
            for spelling in (name.replace("-", "_"), name.replace("-", "")):
                known: Callable[..., Any] | None = getattr(formats, f"format_{spelling}", None)
                if known is not None:
                    return NamedFormat(known)
            raise self._failed(f'"chat_format" in parameters.extra: llama-cpp-python has no "{name}"')
        if template is None:
            return None
        llama = self._llama
        special = {"eos_token": self._shown(llama.token_eos()), "bos_token": self._shown(llama.token_bos())}
        if limited:
            return LimitedTemplate(self.name, template, special)
        try:
            return Template(template, special)
        except Exception as error:
            raise self._failed(f"its chat template cannot be used: {error}") from error


def _untemplated(kind: Any) -> Any:
    """The library's class without the templates of a file, which it compiles when it opens the file."""
    metadata = property(
        lambda llama: {key: each for key, each in llama.all_metadata.items() if not key.startswith(TEMPLATE)},
        lambda llama, values: setattr(llama, "all_metadata", values),
    )
    return type(kind.__name__, (kind,), {"metadata": metadata})
