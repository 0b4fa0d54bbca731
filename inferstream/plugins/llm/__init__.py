"""Language models: transformers, llama.cpp, embeddings and pipelines."""

from inferstream.ext import Artefact, Extension

extension = Extension(
    "llm",
    requires=["frameworks", "text"],
    artefacts=(
        Artefact(
            "inferstream.runtimes.llamacpp.LlamaCppModel", suffixes=(".gguf",), data=(".gguf",), is_part=True
        ),
        Artefact(
            "inferstream.runtimes.transformers.CausalLM",
            others=(
                "inferstream.runtimes.embeddings.EmbeddingsModel",
                "inferstream.runtimes.huggingface.HuggingFaceRuntime",
            ),
            names=("config.json",),
            role="folder",
            settings="inferstream.plugins.llm.folders:settings_of",
            weights="*.safetensors",
        ),
    ),
    runtimes={
        "mlserver_huggingface.HuggingFaceRuntime": "inferstream.runtimes.huggingface:HuggingFaceRuntime",
        "mlserver_huggingface.runtime.HuggingFaceRuntime": "inferstream.runtimes.huggingface:HuggingFaceRuntime",
    },
)
