"""`OpenVino`: a language model with continuous batching by OpenVINO GenAI."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

from inferstream.ext.runtimes import PermittedCall
from inferstream.plugins.text.chat_prompts import ChatPrompts
from inferstream.plugins.text.limited_template import LimitedTemplate
from inferstream.plugins.text.template import Template, find_formats

from ..grammars.forms import Forms
from ..language_model import LanguageModel
from ..prompts import PromptReader
from ..sampling import Sampling, read_sampling
from .engine import OpenVinoEngine
from .formats import LibraryFormats, build_trial
from .options import OptionReader, read_defaults
from .properties import read_properties
from .settings import OpenVinoSettings
from .vocabulary import OpenVinoVocabulary

EXTRA = "openvino"
PACKAGE = "openvino_genai"

NETWORK = "openvino_model.xml"
"""File of the network in a folder that optimum-intel has exported."""

CACHED_CONTEXTS = 4
"""Number of streams of maximum length that the cache has room for by default."""

BLOCK = 32
"""Tokens in a block of the cache on a CPU."""


class OpenVino(LanguageModel):
    """A folder with `openvino_model.xml`, or a GGUF file. Up to `max_active` streams advance together."""

    separates_principals = continues_formats = False
    permitted_call = PermittedCall(
        "ContinuousBatchingPipeline", frozenset([".gguf"]), frozenset(["max_context", "max_tokens"])
    )
    _engine: OpenVinoEngine
    _vocabulary: OpenVinoVocabulary

    async def load(self) -> bool:
        self._failover = settings = self._validate_settings(OpenVinoSettings)
        path = self._find_model(Path(await self._source(None, (NETWORK, "model.gguf"))))
        await asyncio.to_thread(self._open, path, settings)
        return True

    @property
    def kv_usage(self) -> float:  # type: ignore[override]
        """The fraction of the cache that active streams use."""
        return self._engine.cache_usage if hasattr(self, "_engine") else 0.0

    def _open(self, path: Path, settings: OpenVinoSettings) -> None:
        self._fixed_arguments(path)
        with self._importing():
            library, tensors = self._import(PACKAGE, EXTRA), self._import("openvino", EXTRA)
        framework = f"OpenVINO GenAI {library.__version__.partition('-')[0]}"
        try:
            known = read_properties(path)
            context = min(settings.max_context, known.context or settings.max_context)
            pipeline = self._build_pipeline(library, path, settings, context)
            tokenizer = pipeline.get_tokenizer()
            self._vocabulary = self._speller = vocabulary = OpenVinoVocabulary(tokenizer)
            context = min(context, len(vocabulary.tokenize("a " * context)))  # it truncates longer prompts
        except (OSError, RuntimeError, ValueError) as error:
            raise self._unreadable(path, framework, error) from error
        config = pipeline.get_config()
        ends = {tokenizer.get_eos_token_id(), config.eos_token_id, *config.stop_token_ids}
        self._ends = frozenset(each for each in ends if each >= 0)
        self._shares_prefixes = True  # the library has no salt, and reuses prefixes only if they are shared
        template = settings.chat_template or tokenizer.get_original_chat_template() or None
        prompts = PromptReader(
            self._build_template(template, settings, path),
            vocabulary.tokenize,
            lambda text: vocabulary.tokenize(text, True),
        )
        calls, prompts.reasoning = find_formats(self.settings, self._untrusted, template)
        defaults = read_sampling(settings.sampling, read_defaults(config))
        self._reader = OptionReader(
            prompts, calls, True, vocabulary.size, context, defaults, settings.max_tokens
        )
        size = max(known.vocabulary, vocabulary.size)
        self._forms = Forms(
            LibraryFormats(
                library,
                lambda: build_trial(library, tensors, library.Tokenizer(path), size),
                self._ends,
            )
        )
        self._engine = OpenVinoEngine(library, tensors, pipeline, self._ends)
        self._describe(known.architecture)

    def _build_pipeline(self, library: Any, path: Path, settings: OpenVinoSettings, context: int) -> Any:
        active = self.settings.max_active
        cells = max(context, settings.cache_tokens or CACHED_CONTEXTS * context)
        scheduler = library.SchedulerConfig()
        scheduler.num_kv_blocks = -(-cells // BLOCK) + active  # the last block of a stream is not full
        scheduler.max_num_seqs = active
        scheduler.max_num_batched_tokens = settings.prefill_budget + active
        scheduler.enable_prefix_caching = settings.share_prefixes
        threads = settings.n_threads or self._processors()
        properties = {
            "INFERENCE_NUM_THREADS": threads,
            "KV_CACHE_PRECISION": settings.cache_precision,
            "sampler_num_threads": threads,
        }
        return library.ContinuousBatchingPipeline(path, scheduler, "CPU", properties)

    def _build_template(
        self, template: str | None, settings: OpenVinoSettings, path: Path
    ) -> ChatPrompts | None:
        """Return the renderer of chat messages, or None without a template."""
        if template is None:
            return None
        special = self._vocabulary.special_texts
        if settings.chat_template is None and self._untrusted(path) is not None:
            return LimitedTemplate(self.name, template, special)
        try:
            return Template(template, special)
        except Exception as error:
            raise self._build_load_error(f"its chat template cannot be used: {error}") from error

    def _find_model(self, source: Path) -> Path:
        """Return the folder of a network, or the GGUF file."""
        if source.name == NETWORK:
            return source.parent
        if source.is_file() or (source / NETWORK).is_file():
            return source
        files = sorted(source.glob("*.gguf"))
        if len(files) == 1:
            return files[0]
        if not files:
            raise self._build_load_error(f"its folder holds neither {NETWORK} nor a .gguf file")
        names = ", ".join(path.name for path in files)
        raise self._build_load_error(f"its folder holds {names}; parameters.uri has to name one")

    def _decode(self, tokens: list[int], skip: bool = True) -> str:
        return self._vocabulary.decode(tokens, skip)

    def _array(self, values: Any) -> Any:
        return values  # the library applies the restrictions that it knows

    def _generator(self, sampling: Sampling) -> int:
        """Return the seed of a stream."""
        return secrets.randbits(64) if sampling.seed is None else sampling.seed % 2**64
