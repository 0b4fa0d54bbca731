"""Libraries of runtimes whose errors for values are errors of the client."""

from inferstream.plugins.llm.libraries import LIBRARIES as PIPELINES

LIBRARIES = PIPELINES.union(
    (__name__.rpartition(".")[0], "_catboost", "catboost", "lightgbm", "mlflow", "sklearn", "xgboost")
)
"""Packages of frameworks, whose models may hold each other's, and this one."""
