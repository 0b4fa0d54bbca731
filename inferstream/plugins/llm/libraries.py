"""Libraries of runtimes whose errors for values are errors of the client."""

LIBRARIES = frozenset(
    (
        __name__.rpartition(".")[0],
        "huggingface_hub",
        "onnxruntime",
        "optimum",
        "tokenizers",
        "torch",
        "transformers",
    )
)
"""Packages of pipelines, and this one."""
