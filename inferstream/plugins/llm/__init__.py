"""Language models: engines, transformers, llama.cpp, OpenVINO, embeddings and pipelines."""

from inferstream.ext import Artefact, Extension, Position

MOVED = (
    *("embeddings", "encoder_model", "encoders", "engine", "grammars", "huggingface", "huggingface_trust"),
    *("llamacpp", "openvino", "pipelines", "sampling", "sentences", "transformers"),
)
"""Modules that moved here from `inferstream.runtimes`."""

extension = Extension(
    "llm",
    requires=["frameworks", "text"],
    artefacts=(
        Artefact(
            "inferstream.plugins.llm.llamacpp.LlamaCppModel",
            suffixes=(".gguf",),
            data=(".gguf",),
            is_part=True,
        ),
        Artefact(
            "inferstream.plugins.llm.transformers.CausalLM",
            others=(
                "inferstream.plugins.llm.embeddings.EmbeddingsModel",
                "inferstream.plugins.llm.huggingface.HuggingFaceRuntime",
            ),
            names=("config.json",),
            role="folder",
            settings="inferstream.plugins.llm.folders:read_settings",
            weights="*.safetensors",
        ),
    ),
    facets={"failover": "inferstream.plugins.llm.failover:find_continuation"},
    stages={
        # Outside the limits, so that a stream gives its slot back before it continues.
        "failover": Position("inferstream.plugins.llm.failover:add_failover", outside="limits"),
    },
    modules={"huggingface": "inferstream.plugins.llm.mlserver_names"},
    moved={f"runtimes.{name}": f"inferstream.plugins.llm.{name}" for name in MOVED},
    runtimes={
        "embeddings": "inferstream.plugins.llm.embeddings:EmbeddingsModel",
        "engine": "inferstream.plugins.llm.engine:Engine",
        "huggingface": "inferstream.plugins.llm.huggingface:HuggingFaceRuntime",
        "llamacpp": "inferstream.plugins.llm.llamacpp:LlamaCppModel",
        "openvino": "inferstream.plugins.llm.openvino:OpenVino",
        "transformers": "inferstream.plugins.llm.transformers:CausalLM",
        "mlserver_huggingface.HuggingFaceRuntime": "inferstream.plugins.llm.huggingface:HuggingFaceRuntime",
        "mlserver_huggingface.runtime.HuggingFaceRuntime": "inferstream.plugins.llm.huggingface:HuggingFaceRuntime",
    },
)
