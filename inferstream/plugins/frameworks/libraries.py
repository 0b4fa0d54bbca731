"""Libraries of runtimes whose errors for values are errors of the client."""

PIPELINES = frozenset(
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

LIBRARIES = PIPELINES.union(("_catboost", "catboost", "lightgbm", "mlflow", "sklearn", "xgboost"))
"""Packages of frameworks, whose models may hold each other's."""
