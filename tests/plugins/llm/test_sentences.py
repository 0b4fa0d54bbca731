"""What a folder says of pooling, lengths and prompts is read as sentence-transformers reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferstream.plugins.llm.sentences import Sentences, read_sentences


def folder_of(root: Path, *modules: str, **files: Any) -> Path:
    """A folder with these modules, and files by name, `__` for a slash and `.json` at the end."""
    known = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize", "Dense": "2_Dense"}
    listed = [
        {"idx": i, "path": known[m], "type": f"sentence_transformers.models.{m}"}
        for i, m in enumerate(modules)
    ]
    for name, content in {"modules": listed, "1_Pooling__config": {}, **files}.items():
        path = root / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return root


def test_bare_transformer_uses_mean_pooling(tmp_path) -> None:
    assert read_sentences(tmp_path) == Sentences(pooling=("mean",), normalize=False)


def test_folder_sets_pooling_normalisation_length_and_case(tmp_path) -> None:
    folder = folder_of(
        tmp_path,
        *("Transformer", "Pooling", "Normalize"),
        **{
            "1_Pooling__config": {"word_embedding_dimension": 384, "pooling_mode_cls_token": True},
            "sentence_bert_config": {"max_seq_length": 256, "do_lower_case": True},
        },
    )
    assert read_sentences(folder) == Sentences(
        pooling=("cls",), normalize=True, max_length=256, lowercase=True
    )


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, ("lasttoken",)),
        ({"pooling_mode": "max"}, ("max",)),
        ({"pooling_mode": ["mean", "max"]}, ("max", "mean")),
        ({"word_embedding_dimension": 3}, ("mean",)),
    ],
)
def test_old_and_new_pooling_formats_are_read(tmp_path, config, pooling) -> None:
    folder = folder_of(tmp_path, "Transformer", "Pooling", **{"1_Pooling__config": config})
    found = read_sentences(folder)
    assert (found.pooling, found.special) == (pooling, ())


@pytest.mark.parametrize(
    ("modules", "config", "special"),
    [
        (("Transformer", "Pooling", "Dense"), {}, ("Dense",)),
        (
            ("Transformer", "Pooling"),
            {"pooling_mode_weightedmean_tokens": True},
            ("pooling_mode_weightedmean_tokens",),
        ),
        (("Transformer", "Pooling"), {"pooling_mode": "mean_sqrt_len_tokens"}, ("mean_sqrt_len_tokens",)),
        (("Transformer", "Pooling"), {"include_prompt": False}, ("include_prompt",)),
    ],
)
def test_unsupported_modules_are_named(tmp_path, modules, config, special) -> None:
    assert read_sentences(folder_of(tmp_path, *modules, **{"1_Pooling__config": config})).special == special


def test_prompts_are_read(tmp_path) -> None:
    general = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    found = read_sentences(folder_of(tmp_path, "Transformer", config_sentence_transformers=general))
    assert (found.prompts, found.default_prompt) == (general["prompts"], "query")


@pytest.mark.parametrize("broken", ["{", "{}"])
def test_unreadable_file_is_named(tmp_path, broken: str) -> None:
    with pytest.raises(ValueError, match=r"^modules\.json"):
        read_sentences(folder_of(tmp_path, modules=broken))
