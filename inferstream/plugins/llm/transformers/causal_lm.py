"""`CausalLM`: a language model run by transformers, with continuous batching over a shared cache."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferstream.ext.runtimes import TORCH_LOADING
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.text.template import find_formats

from ..grammars.forms import Forms
from ..grammars.matching import Grammars
from ..huggingface_trust import permit_pretrained_call
from ..language_model import LanguageModel
from ..requests import GenerationReader
from ..sampling import Sampling
from ..spelling import TokenizerSpeller
from ..tokenizer_prompts import Prompts
from .settings import LanguageSettings

if TYPE_CHECKING:
    from .loading import Opened
    from .paged import PagedEngine

logger = get_logger("runtimes")

EXTRA = "transformers"


class CausalLM(LanguageModel):
    """A causal language model: a folder with safetensors, a GGUF file, or a model on the Hugging Face Hub.

    `parameters.uri` names the folder or file. `pretrained_model` in `parameters.extra` names a model on the
    Hub. The model accepts a prompt or chat messages, and streams one `Token` per token.
    """

    permitted_call = permit_pretrained_call(
        "AutoModelForCausalLM.from_pretrained",
        *("chat_template", "device", "dtype", "max_context", "max_tokens", "quantize", "sampling"),
    )

    async def load(self) -> bool:
        self._failover = settings = self._validate_settings(LanguageSettings)
        source = await self._source(settings.pretrained_model)
        await asyncio.to_thread(self._open, source, settings)
        return True

    def _open(self, source: Path | str, settings: LanguageSettings) -> None:
        fixed = self._fixed_arguments(source)
        with self._importing():
            self._torch = self._import("torch", EXTRA)
            self._import("transformers", EXTRA)
            from . import engine, loading
        try:
            self._torch.set_num_threads(self._processors())
            with TORCH_LOADING:
                opened = loading.open_model(source, settings, fixed)
        except Exception as error:  # any exception, which may contain paths
            logger.error("model %s: transformers cannot read %s", self.name, source, exc_info=error)
            raise self._build_load_error(_describe_error(error, Path(source))) from error
        on_cpu = opened.model.device.type == "cpu"
        budget = settings.prefill_budget or (128 if on_cpu else 2048)
        self._tokenizer = opened.tokenizer
        theirs = (
            not self.settings.trust_remote_code if isinstance(source, str) else bool(self._untrusted(source))
        )
        prompts = Prompts(opened.tokenizer, settings.chat_template, self.name if theirs else None)
        calls, prompts.reasoning = find_formats(self.settings, self._untrusted, prompts.template)
        self._speller = TokenizerSpeller(opened.tokenizer)
        self._ends, self._shares_prefixes = opened.ends, settings.share_prefixes
        self._device = opened.model.device
        self._forms = Forms(Grammars(partial(loading.build_grammar_tokenizer, opened)))
        vocabulary = opened.model.config.get_text_config().vocab_size
        reader: type[GenerationReader] = GenerationReader
        if settings.attention == "paged":
            reader, self._engine = self._open_paged(opened, settings, budget)
        else:
            self._engine = engine.StepEngine(
                opened.model, self.settings.max_active, budget, settings.prefix_tokens
            )
        self._reader = reader(
            prompts,
            calls,
            self._forms.usable,
            vocabulary,
            opened.context,
            opened.sampling,
            settings.max_tokens,
        )
        self._describe(opened.model.config.model_type)

    def _open_paged(
        self, opened: "Opened", settings: LanguageSettings, budget: int
    ) -> tuple[type[GenerationReader], "PagedEngine"]:
        """Return the reader and the engine of paged attention. Raises ModelLoadFailed."""
        try:
            from . import paged
        except ImportError as error:
            raise self._build_load_error('attention "paged" needs transformers 5.24 or newer') from error
        if (name := paged.find_unsupported(opened.sampling)) is not None:
            raise self._build_load_error(
                f'attention "paged" has no {name}, which is a default of the model; set sampling'
            )
        tokens = settings.cache_tokens
        if tokens is not None or opened.model.device.type == "cpu":
            tokens = max(opened.context, tokens or paged.CACHED_CONTEXTS * opened.context)
        most, shares = self.settings.max_active, settings.share_prefixes
        try:
            engine = paged.PagedEngine(opened.model, most, budget, tokens, shares, opened.ends)
        except Exception as error:  # any exception of the library
            logger.error("model %s: paged attention", self.name, exc_info=error)
            raise self._build_load_error(f'attention "paged": {_describe_error(error, Path())}') from error
        return paged.PagedReader, engine

    async def unload(self) -> bool:
        close = getattr(getattr(self, "_engine", None), "close", None)
        await super().unload()
        if close is not None:
            await asyncio.to_thread(close)
        return True

    def _decode(self, tokens: list[int], skip: bool = True) -> str:
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=skip, clean_up_tokenization_spaces=False
        )
        return text

    def _array(self, values: Any) -> Any:
        return self._torch.tensor(values, device=self._device)

    def _generator(self, sampling: Sampling) -> Any:
        generator = self._torch.Generator(self._device)
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        return generator

    def _skip_draws(self, generator: Any, count: int) -> None:
        alike = self._torch.ones(self._reader.vocabulary, device=self._device)
        for _ in range(count):
            self._torch.multinomial(alike, 1, generator=generator)


def _describe_error(error: Exception, path: Path) -> str:
    """Return the first line of an error without paths, because clients can read why a model did not load."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".").replace(str(path), path.name).replace(str(path.parent), "its folder")
