"""Language models: transformers, llama.cpp, embeddings and pipelines."""

from inferstream.ext import Extension

extension = Extension(
    "llm",
    runtimes={
        "mlserver_huggingface.HuggingFaceRuntime": "inferstream.runtimes.huggingface:HuggingFaceRuntime",
        "mlserver_huggingface.runtime.HuggingFaceRuntime": "inferstream.runtimes.huggingface:HuggingFaceRuntime",
    },
)
