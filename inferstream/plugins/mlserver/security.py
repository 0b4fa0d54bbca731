"""The runtimes that models can use, as the MLServer of Open Data Hub reports them."""

from enum import Enum

from pydantic import BaseModel

from inferstream.errors import InvalidSettings
from inferstream.ext.runtimes import TrustedRuntimes

BUILT_IN = {
    "alibi_detect": "AlibiDetectRuntime",
    "alibi_explain": "AlibiExplainRuntime",
    "catboost": "CatboostModel",
    "huggingface": "HuggingFaceRuntime",
    "lightgbm": "LightGBMModel",
    "mlflow": "MLflowRuntime",
    "mllib": "MLlibModel",
    "onnx": "OnnxModel",
    "sklearn": "SKLearnModel",
    "xgboost": "XGBoostModel",
}
"""The classes of the MLServer runtimes, by package without its prefix."""

ALLOWED_MODEL_IMPLEMENTATIONS = {f"mlserver_{package}.{name}" for package, name in BUILT_IN.items()}
"""The MLServer runtimes, whose images allow them all."""

ALIASES = {
    f"mlserver_{package}.{'runtime' if name.endswith('Runtime') else package}.{name}": f"mlserver_{package}.{name}"
    for package, name in BUILT_IN.items()
}


class RuntimeSecurityMode(Enum):
    """Whether a list of trusted runtimes is in force."""

    PRODUCTION = "PRODUCTION"
    DEVELOPMENT = "DEVELOPMENT"


class RuntimeSecurityResponse(BaseModel):
    """The mode, and in production the import paths that models can use."""

    mode: RuntimeSecurityMode
    allowed_model_implementations: list[str] | None = None


def canonicalize_runtime_import_path(import_path: str) -> str:
    """Return the short import path of an MLServer runtime. Other paths are returned unchanged."""
    return ALIASES.get(import_path, import_path)


def is_valid_runtime_import_path(value: object) -> bool:
    """Whether a list of trusted runtimes may contain a value."""
    try:
        return bool(TrustedRuntimes.of([value])) and "." in str(value)
    except InvalidSettings:
        return False


def describe_security() -> RuntimeSecurityResponse:
    """Return the list of trusted runtimes that is in force."""
    if (runtimes := TrustedRuntimes.current()) is None:
        return RuntimeSecurityResponse(mode=RuntimeSecurityMode.DEVELOPMENT)
    names = sorted({*map(canonicalize_runtime_import_path, runtimes.names)})
    return RuntimeSecurityResponse(mode=RuntimeSecurityMode.PRODUCTION, allowed_model_implementations=names)
