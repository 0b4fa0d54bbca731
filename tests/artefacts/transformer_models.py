"""Tiny transformers with random weights, and tokenizers of a few words."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

TEXT = "the sky is blue this was terrible who are you hello i am seldon red green good bad"
WORDS = TEXT.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer() -> Any:
    """One token for each word."""
    known = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    made = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **names)


def config(**more: Any) -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS), max_position_embeddings=64, **sizes, **more
    )


def saved(folder: Path, kind: str, **more: Any) -> Path:
    """A folder with a model of this class and its tokenizer."""
    torch.manual_seed(len(kind))
    getattr(transformers, kind)(config(**more)).eval().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def sentences(folder: Path, *, normalize: bool = True, **files: Any) -> Path:
    """A folder of sentence-transformers. Files by name, without `.json`."""
    saved(folder, "BertModel")
    modules = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    listed = [
        {
            "idx": number,
            "name": str(number),
            "path": paths[name],
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(modules)
    ]
    pooling = files.pop("pooling", {"pooling_mode_mean_tokens": True})
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    length = {"max_seq_length": 32, "do_lower_case": False}
    for name, content in {"modules": listed, "sentence_bert_config": length, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder
