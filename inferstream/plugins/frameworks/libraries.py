"""Libraries whose value errors are reported as client errors."""

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
"""Pipeline libraries and this package."""

LIBRARIES = PIPELINES.union(("_catboost", "catboost", "lightgbm", "mlflow", "sklearn", "xgboost"))
"""Framework libraries, whose models may contain each other."""
