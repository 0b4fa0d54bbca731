"""`LlamaCppModel`: a language model in a GGUF file, with continuous batching by llama.cpp."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferstream.ext.runtimes import PermittedCall
from inferstream.plugins.text.chat_prompts import ChatPrompts
from inferstream.plugins.text.inputs import TOOLS
from inferstream.plugins.text.limited_template import LimitedTemplate
from inferstream.plugins.text.template import Template, find_formats

from ..grammars.forms import Forms
from ..grammars.matching import Grammars
from ..language_model import LanguageModel
from ..prompts import PromptReader
from ..requests import GenerationReader
from ..sampling import Sampling
from .engine import READ_ALONE, LlamaEngine
from .network import Network
from .settings import LlamaSettings

EXTRA = "llamacpp"
PACKAGE = "llama_cpp"
TEMPLATE = "tokenizer.chat_template"
"""Metadata key of the chat template in a GGUF file."""

DEFAULT = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
"""Default sampling parameters of llama.cpp."""

CACHED_CONTEXTS = 4
"""Number of streams of maximum length that the cache has room for by default."""


class NamedFormat(ChatPrompts):
    """A chat format of llama-cpp-python, which accepts only messages and tools."""

    def __init__(self, format: Callable[..., Any]) -> None:
        super().__init__("")
        self._format = format

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        tools = {} if TOOLS not in variables else {TOOLS: variables[TOOLS]}
        return str(self._format(messages=messages, **tools).prompt)


class LlamaCppModel(LanguageModel):
    """A GGUF model. Up to `max_active` streams advance together in one context of llama.cpp."""

    permitted_call = PermittedCall(
        "llama_model_load_from_file",
        frozenset([".gguf"]),
        frozenset(["chat_format", "n_ctx", "n_gpu_layers"]),
    )
    _network: Network
    _engine: LlamaEngine
    _context: int

    async def load(self) -> bool:
        self._failover = settings = self._validate_settings(LlamaSettings)
        path = self._find_file(Path(await self._source(None, ("model.gguf",))))
        await asyncio.to_thread(self._open, path, settings)
        return True

    async def unload(self) -> bool:
        loaded = hasattr(self, "_engine")
        await super().unload()
        if loaded:
            await asyncio.to_thread(self._network.close)  # the library may take a while
        return True

    def _open(self, path: Path, settings: LlamaSettings) -> None:
        self._fixed_arguments(path)
        with self._importing():
            self._library = self._import(PACKAGE, EXTRA)
        try:
            self._open_network(path, settings)
        except (OSError, RuntimeError, ValueError) as error:
            framework = f"llama.cpp ({PACKAGE} {self._library.__version__})"
            raise self._unreadable(path, framework, error) from error
        vocabulary = self._network.vocabulary
        self._speller, self._ends, self._shares_prefixes = (
            vocabulary,
            vocabulary.ends,
            settings.share_prefixes,
        )
        template = None if settings.chat_format is not None else self._network.metadata(TEMPLATE)
        calls, reasoning = find_formats(self.settings, self._untrusted, template)
        chats = self._build_format(settings.chat_format, template, self._untrusted(path) is not None)
        prompts = PromptReader(chats, vocabulary.tokenize, lambda text: vocabulary.tokenize(text, True))
        prompts.reasoning, prompts.starts_chats = reasoning, settings.chat_format is not None
        self._forms = Forms(Grammars(self._build_grammar_tokenizer))
        self._reader = GenerationReader(
            prompts, calls, self._forms.usable, vocabulary.size, self._context, DEFAULT, None
        )
        self._describe(self._network.metadata("general.architecture") or "")

    def _open_network(self, path: Path, settings: LlamaSettings) -> None:
        """Load the file, and allocate sequences for `max_active` streams and as many prefixes."""
        active, limit = self.settings.max_active, self._library.llama_max_parallel_sequences()
        if active >= limit:
            raise self._build_load_error(f"max_active is {active}, and llama.cpp has {limit} sequences")
        threads = settings.n_threads or self._processors()
        network = Network(self._library, path, threads, settings.n_gpu_layers)
        self._context = min(settings.n_ctx, network.trained_length)
        self._cells = max(self._context, settings.cache_tokens or CACHED_CONTEXTS * self._context)
        sequences = min(2 * active, limit)
        network.open(self._cells, sequences, READ_ALONE + active)
        self._network, self._engine = network, LlamaEngine(network, sequences)

    @property
    def kv_usage(self) -> float:  # type: ignore[override]
        """The fraction of the cache that active streams use."""
        return self._engine.read / self._cells if hasattr(self, "_engine") else 0.0

    def _decode(self, tokens: list[int], skip: bool = True) -> str:
        vocabulary = self._network.vocabulary
        shown = (each for each in tokens if not (skip and each in vocabulary.special))
        return b"".join([vocabulary.pieces[each] for each in shown]).decode(errors="replace")

    def _array(self, values: Any) -> Any:
        return np.array(values)

    def _generator(self, sampling: Sampling) -> np.random.Generator:
        return np.random.default_rng(None if sampling.seed is None else sampling.seed % 2**64)

    def _skip_draws(self, generator: np.random.Generator, count: int) -> None:
        generator.random(count)

    def _build_grammar_tokenizer(self) -> Any:
        from llguidance.llamacpp import lltokenizer_from_vocab

        vocabulary = self._network.vocabulary
        return lltokenizer_from_vocab(vocabulary.handle, vocabulary.size, sorted(vocabulary.ends))

    def _find_file(self, source: Path) -> Path:
        """Return the model file: `parameters.uri`, the only file in its folder, or the first part."""
        if source.is_file():
            return source
        files = [path for path in sorted(source.glob("*.gguf")) if not path.name.startswith("mmproj")]
        parts = [path for path in files if "-00001-of-" in path.name]
        if len(parts or files) == 1:
            return (parts or files)[0]
        if not files:
            raise self._build_load_error("its folder holds no .gguf file")
        names = ", ".join(path.name for path in files)
        raise self._build_load_error(f"its folder holds {names}; parameters.uri has to name one")

    def _build_format(self, name: str | None, template: str | None, limited: bool) -> ChatPrompts | None:
        """Return the renderer of chat messages, or None without a template.

        Set `limited` if the author of the file is not trusted.
        """
        formats: Any = self._library.llama_chat_format
        if name is not None:
            for spelling in (name.replace("-", "_"), name.replace("-", "")):
                known: Callable[..., Any] | None = getattr(formats, f"format_{spelling}", None)
                if known is not None:
                    return NamedFormat(known)
            raise self._build_load_error(
                f'"chat_format" in parameters.extra: llama-cpp-python has no "{name}"'
            )
        if template is None:
            return None
        special = self._network.vocabulary.special_texts
        if limited:
            return LimitedTemplate(self.name, template, special)
        try:
            return Template(template, special)
        except Exception as error:
            raise self._build_load_error(f"its chat template cannot be used: {error}") from error
