"""Tiny language models with random weights, and a tokenizer trained on the spot."""

import json
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'robot' %}"
    "{{ raise_exception('no robots') }}{% endif %}"
    "<{{ message['role'] }}>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

WORDS = ["one", "two", "three", "four", "five", "über", "naïve", "🙂", "🚀", "日本語"]


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Byte-level, so that a character may be split over several tokens."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["</s>"], initial_alphabet=alphabet)
    found.train_from_iterator([" ".join(WORDS[:5])], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=found, eos_token="</s>")
    fast.chat_template = TEMPLATE
    return fast


def config(kind: str = "llama", context: int = 256) -> transformers.PretrainedConfig:
    """Weights large enough that the most likely token is no matter of rounding."""
    sizes = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {
        "max_position_embeddings": context,
        "eos_token_id": 0,
        "bos_token_id": None,
        "initializer_range": 0.3,
    }
    gated = {**sizes, **more, "intermediate_size": 48, "num_key_value_heads": 2}
    if kind == "gpt2":
        return transformers.GPT2Config(
            vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=context, **{**more, "bos_token_id": 0}
        )
    if kind == "mistral":
        return transformers.MistralConfig(**gated, sliding_window=9)
    if kind == "qwen2":
        return transformers.Qwen2Config(
            **gated, use_sliding_window=True, sliding_window=9, max_window_layers=1
        )
    return transformers.LlamaConfig(**gated)


def write(folder: Path, kind: str = "llama", context: int = 256, **extra: object) -> Path:
    """A model folder that the runtime serves; its artefacts are below it."""
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config(kind, context))
    model.save_pretrained(folder / "artefacts")
    tokenizer().save_pretrained(folder / "artefacts")
    settings = {
        "name": "tiny",
        "implementation": "inferstream.plugins.llm.transformers.CausalLM",
        "max_active": 16,
        "parameters": {"uri": "./artefacts", "extra": extra},
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))
    return folder


class Alone:
    """The same model by itself: what `generate` says is what the server should."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder / "artefacts", dtype=torch.float32
        )
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "artefacts")

    def tokens(self, prompt: str, count: int, seed: int | None = None, **options: object) -> list[int]:
        """The tokens that `generate` writes; at random with a seed."""
        given = self.tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        if seed is not None:
            torch.manual_seed(seed)
            options["do_sample"] = True
        written = self.model.generate(**given, max_new_tokens=count, pad_token_id=0, **options)
        return written[0, given["input_ids"].shape[1] :].tolist()

    def text(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True)
