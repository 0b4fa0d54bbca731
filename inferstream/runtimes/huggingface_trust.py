"""Arguments of transformers and sentence-transformers for folders without trust, and patterns for their JSON files."""

from inferstream.ext.runtimes import PermittedCall

CHOSEN_CLASSES = r"Transformer|Pooling|Normalize|Dense|LayerNorm|Dropout|StaticEmbedding"

WEIGHTS = {"trust_remote_code": False, "use_safetensors": True, "weights_only": True}
"""Arguments of each `from_pretrained` for files without trust."""

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
"""Keys of JSON files by which transformers and sentence-transformers import or fetch what the files name."""

FILES = frozenset([".safetensors", ".gguf", ".json", ".txt", ".model", ".jinja", ".spm", ".tiktoken"])


def pretrained(function: str, *settings: str) -> PermittedCall:
    """The entry of the list for a function that reads a folder of transformers."""
    return PermittedCall(function, FILES, frozenset(settings), WEIGHTS, FILE_VALUES)
