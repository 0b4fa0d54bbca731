"""scikit-learn objects from joblib or pickle: estimators, transformers and callables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferstream.ext.runtimes import Columns, Runtime
from inferstream.types import MetadataTensor

from .estimators import belongs_to, describe_input, describe_output, find_columns, spell_for_lightgbm
from .libraries import LIBRARIES


class SKLearnModel(Runtime):
    """An estimator, transformer or pipeline, or a plain callable that takes the place of `predict`."""

    artefacts = ("model.joblib", "model.pickle", "model.pkl")
    functions = ("predict", "predict_proba", "transform")
    libraries = LIBRARIES
    refused = (ValueError, TypeError)
    """Encoders raise TypeError for numbers in a column of strings."""

    def open(self, path: Path) -> Any:
        self._import("sklearn", "sklearn")
        artefact = self._import("joblib", "sklearn").load(path)
        if hasattr(artefact, "get_params"):
            self._bound_threads(artefact)
        return artefact

    def _bound_threads(self, artefact: Any) -> None:
        """Limit `n_jobs`, because a model trained with `n_jobs=-1` would use every core for each request."""
        threads = self._threads
        jobs = {name: value for name, value in artefact.get_params().items() if name.endswith("n_jobs")}
        changed = [name for name, value in jobs.items() if value != threads and (value or threads != 1)]
        artefact.set_params(**dict.fromkeys(changed, threads))

    def method(self, artefact: Any, name: str) -> Callable[..., Any] | None:
        function = super().method(artefact, name)
        bare = callable(artefact) and not hasattr(artefact, "get_params")
        return artefact if function is None and name == "predict" and bare else function

    def features(self, artefact: Any) -> int | None:
        # This property raises AttributeError if the first step of a pipeline, such as a vectorizer, has none.
        return getattr(artefact, "n_features_in_", None)

    def columns(self, artefact: Any) -> Columns | None:
        columns = find_columns(artefact)
        spelled = spell_for_lightgbm if belongs_to(artefact, "lightgbm") else None
        return None if columns is None else Columns(columns, frames=True, spelled=spelled)

    def output(self, artefact: Any, method: str) -> MetadataTensor | None:
        return describe_output(artefact, method)

    def array(self, artefact: Any) -> MetadataTensor | None:
        return describe_input(artefact)
