"""Restrictions for loading untrusted folders with transformers and sentence-transformers."""

from inferstream.ext.runtimes import PermittedCall

CHOSEN_CLASSES = r"Transformer|Pooling|Normalize|Dense|LayerNorm|Dropout|StaticEmbedding"

WEIGHTS = {"trust_remote_code": False, "use_safetensors": True, "weights_only": True}
"""Arguments of `from_pretrained` for untrusted files."""

ARGUMENTS = r"(torch_)?dtype|attn_implementation|max_length|model_max_length|padding_side|use_cache"

FILE_VALUES = {
    **dict.fromkeys(("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs"), ARGUMENTS),
    **dict.fromkeys(("config_args", "config_kwargs", "encoder_args", "adapter_kwargs"), ARGUMENTS),
    **{
        name.format(part): r"[\w|]*"
        for part in ("attn", "experts")
        for name in ("{}_implementation", "_{}_implementation", "_{}_implementation_internal")
    },
    **dict.fromkeys(("backbone", "architecture"), r"[\w.-]*"),
    "base_model_name_or_path": r"(?!)",
    "path": r"(?!/)(?!.*\.\.).*",
    "activation_function": r"\w*|torch\.nn\.modules\.(activation|linear)\.\w+",
    **dict.fromkeys(("type", "types"), rf"[^.]*|sentence_transformers\.[\w.]+\.({CHOSEN_CLASSES})"),
}
"""Allowed values of the JSON keys that make these libraries import code or fetch files."""

FILES = frozenset([".safetensors", ".gguf", ".json", ".txt", ".model", ".jinja", ".spm", ".tiktoken"])


def permit_pretrained_call(function: str, *settings: str) -> PermittedCall:
    """Return the permitted call for a function that loads a transformers folder."""
    return PermittedCall(function, FILES, frozenset(settings), WEIGHTS, FILE_VALUES)
