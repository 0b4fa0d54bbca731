"""Loads a causal language model and its tokenizer from a folder, a GGUF file or the Hugging Face Hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from inferstream.plugins.frameworks.quantization import quantize
from inferstream.plugins.text.detokenizer import Detokenizer

from ..sampling import Sampling, read_sampling
from ..token_stream import Piece, TokenStream
from .engine import StepEngine
from .settings import LanguageSettings

TOP_K = 50
"""Default top_k of `generate`, if the configuration enables sampling but does not set it."""


class Opened(NamedTuple):
    """A loaded language model with its tokenizer and defaults."""

    model: Any
    tokenizer: Any
    context: int
    """Maximum tokens of prompt and output together."""
    ends: frozenset[int]
    """End tokens."""
    sampling: Sampling
    """Default sampling parameters."""


def open_model(source: Path | str, settings: LanguageSettings, fixed: Mapping[str, Any]) -> Opened:
    """Load a model from a path or the Hugging Face Hub. Raises ValueError if it cannot use a shared cache."""
    transformers_logging.disable_progress_bar()
    location, options = _location(source)
    code = {"trust_remote_code": False} if fixed else {}
    device = torch.device(settings.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = settings.dtype or ("float32" if device.type == "cpu" else "auto")
    tokenizer = AutoTokenizer.from_pretrained(location, **options, **code)
    model = AutoModelForCausalLM.from_pretrained(
        location, dtype=dtype, attn_implementation="sdpa", **options, **fixed
    )
    model.eval().requires_grad_(False)
    if settings.quantize is not None:
        quantize(model)
    model.to(device)
    if settings.attention == "shared":
        verify_shared_cache(model)
    limits = (settings.max_context, getattr(model.config.get_text_config(), "max_position_embeddings", None))
    known = [limit for limit in limits if limit]
    if not known:
        raise ValueError("the model names no context length, so parameters.extra needs max_context")
    return Opened(model, tokenizer, min(known), _ends(model, tokenizer), _sampling(model, settings))


def build_grammar_tokenizer(opened: Opened) -> Any:
    """Return the llguidance tokenizer. Raises ImportError, or ValueError for a tokenizer in pure Python."""
    from llguidance.hf import from_tokenizer  # Imported lazily: only structured output needs it.

    size = max(len(opened.tokenizer), opened.model.config.get_text_config().vocab_size)
    return from_tokenizer(opened.tokenizer, n_vocab=size, eos_token=sorted(opened.ends) or None)


def _location(path: Path | str) -> tuple[str, dict[str, str]]:
    """Return the folder and options for `from_pretrained`."""
    if isinstance(path, str):
        return path, {}
    if path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    files = sorted(path.glob("*.gguf"))
    if not (path / "config.json").exists() and files:
        if len(files) > 1:
            raise ValueError("its folder holds several .gguf files; name one in parameters.uri")
        return str(path), {"gguf_file": files[0].name}
    return str(path), {}


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    config = model.generation_config
    ends = config.eos_token_id if config.eos_token_id is not None else tokenizer.eos_token_id
    if ends is None:
        return frozenset()
    return frozenset(ends if isinstance(ends, list) else [ends])


def _sampling(model: Any, settings: LanguageSettings) -> Sampling:
    """Return the sampling defaults of the model's generation configuration, overridden by the settings."""
    config, defaults = model.generation_config, {}
    if config.do_sample:
        defaults = {name: getattr(config, name, None) for name in ("temperature", "top_k", "top_p", "min_p")}
        defaults["temperature"] = defaults["temperature"] or 1.0
        defaults["top_k"] = TOP_K if defaults["top_k"] is None else defaults["top_k"]
    defaults["repetition_penalty"] = getattr(config, "repetition_penalty", None)
    return read_sampling(settings.sampling, read_sampling(defaults, Sampling()))


@torch.inference_mode()
def verify_shared_cache(model: Any) -> None:
    """Verify that two streams in a shared cache, read in chunks, have the same logits as each on its own.

    Models differ in the masks and positions that they support. Raises ValueError if the results differ.
    """
    vocabulary = model.config.get_text_config().vocab_size
    texts = [[(7 * n + 3) % vocabulary for n in range(count)] for count in (6, 11)]
    engine = StepEngine(model, most=2, budget=64, kept=0)
    pair = [TokenStream(text[:-1], len(text), Sampling(), Detokenizer(str), single=False) for text in texts]
    try:
        for each in pair:
            engine.add(each)
        engine.read([Piece(pair[1], 4)])
        engine.read([Piece(pair[0], 5), Piece(pair[1], 6)])
        for each, text in zip(pair, texts, strict=True):
            each.tokens.append(text[-1])
        together = engine.write(sorted(pair, key=lambda each: each.row))
    except Exception as error:
        raise ValueError(f"a {type(model).__name__} does not run over a shared cache: {error}") from error
    for each, batched in zip(sorted(pair, key=lambda each: each.row), together, strict=True):
        alone = model(input_ids=torch.tensor([each.tokens], device=model.device), use_cache=False).logits[
            0, -1
        ]
        tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
        if (batched - alone).abs().max() > tolerance * alone.abs().max():
            raise ValueError(f"a {type(model).__name__} does not compute the same over a shared cache")
