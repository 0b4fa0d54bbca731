"""Reads a causal language model and its tokenizer from a folder or a GGUF file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from inferstream.plugins.frameworks.quantization import quantize

from ...text.detokenizer import Detokenizer
from ..sampling import Sampling, read_sampling
from .engine import Engine, Piece
from .settings import LanguageSettings
from .stream import TokenStream

TOP_K = 50
"""What `generate` takes where a configuration that samples does not say."""


class Opened(NamedTuple):
    """What was read, ready to run."""

    model: Any
    tokenizer: Any
    context: int
    """Most tokens of prompt and text together."""
    ends: frozenset[int]
    """Tokens that end a text."""
    sampling: Sampling
    """For requests that say nothing of it."""


def open_model(source: Path | str, settings: LanguageSettings, fixed: Mapping[str, Any]) -> Opened:
    """Read the model at a path, or of this name at the hub. Raises ValueError if it cannot share a cache."""
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
    check(model)
    limits = (settings.max_context, getattr(model.config.get_text_config(), "max_position_embeddings", None))
    known = [limit for limit in limits if limit]
    if not known:
        raise ValueError("the model names no context length, so parameters.extra needs max_context")
    return Opened(model, tokenizer, min(known), _ends(model, tokenizer), _sampling(model, settings))


def grammar_tokens(opened: Opened) -> Any:
    """The tokens as llguidance needs them. Raises ImportError without it, ValueError for a tokenizer in Python."""
    from llguidance.hf import from_tokenizer  # late: only texts with a form need it

    size = max(len(opened.tokenizer), opened.model.config.get_text_config().vocab_size)
    return from_tokenizer(opened.tokenizer, n_vocab=size, eos_token=sorted(opened.ends) or None)


def _location(path: Path | str) -> tuple[str, dict[str, str]]:
    """Folder and options of `from_pretrained`."""
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
    """What `generate` would do by the model's own configuration, then the settings."""
    config, defaults = model.generation_config, {}
    if config.do_sample:
        defaults = {name: getattr(config, name, None) for name in ("temperature", "top_k", "top_p", "min_p")}
        defaults["temperature"] = defaults["temperature"] or 1.0
        defaults["top_k"] = TOP_K if defaults["top_k"] is None else defaults["top_k"]
    defaults["repetition_penalty"] = getattr(config, "repetition_penalty", None)
    return read_sampling(settings.sampling, read_sampling(defaults, Sampling()))


@torch.inference_mode()
def check(model: Any) -> None:
    """Compare two streams in a shared cache, read in pieces, with each of them alone.

    Models differ in which masks and positions they take. Raises ValueError for one that cannot share a cache.
    """
    vocabulary = model.config.get_text_config().vocab_size
    texts = [[(7 * n + 3) % vocabulary for n in range(count)] for count in (6, 11)]
    engine = Engine(model, most=2, budget=64, kept=0)
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
