"""Small models, trained where a test needs them."""

from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler

FLOWERS, SPECIES = load_iris(return_X_y=True)


def classifier() -> Any:
    return LogisticRegression(max_iter=1000).fit(FLOWERS, SPECIES)


def flowers() -> Any:
    return load_iris(as_frame=True).data


def frame_classifier() -> Any:
    """The same as `classifier`, fitted on a data frame."""
    return LogisticRegression(max_iter=1000).fit(flowers(), SPECIES)


def regressor() -> Any:
    return LinearRegression().fit(FLOWERS, SPECIES)


def forest() -> Any:
    return RandomForestClassifier(4, random_state=0, n_jobs=-1).fit(FLOWERS, SPECIES)


def people() -> Any:
    import pandas as pd

    return pd.DataFrame({"age": [20, 30, 60, 70], "city": ["Rome", "Oslo", "Rome", "Oslo"]})


def frame_pipeline() -> Any:
    """A data frame in, probabilities out."""
    prepared = ColumnTransformer([("age", StandardScaler(), ["age"]), ("city", OneHotEncoder(), ["city"])])
    return make_pipeline(prepared, LogisticRegression()).fit(people(), [0, 0, 1, 1])


def frame_scaler() -> Any:
    """A data frame in, a data frame out."""
    frame = people()[["age"]].assign(height=[150.0, 160.0, 170.0, 180.0])
    return MinMaxScaler().set_output(transform="pandas").fit(frame)


def text_classifier() -> Any:
    texts = ["good day", "good night", "bad day", "bad night"]
    return make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["fine", "fine", "sad", "sad"])


def vectorizer() -> Any:
    return TfidfVectorizer().fit(["good day", "bad night"])


def boosted(kind: str, folder: Path, file: str, **settings: Any) -> Path:
    import xgboost

    model = getattr(xgboost, kind)(n_estimators=4, n_jobs=1, **settings).fit(FLOWERS, SPECIES)
    path = folder / file
    written = path if path.suffix != ".bst" else path.with_suffix(".ubj")
    model.save_model(written)
    return written.rename(path)


def light(folder: Path, file: str = "model.bst") -> Path:
    import lightgbm

    settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, lightgbm.Dataset(FLOWERS, SPECIES), 4).save_model(folder / file)
    return folder / file


def boosted_frames(folder: Path, file: str = "model.json") -> Path:
    """The same as `boosted`, fitted on a data frame."""
    import xgboost

    xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(flowers(), SPECIES).save_model(folder / file)
    return folder / file


def light_frames(folder: Path, file: str = "model.bst") -> Path:
    """The same as `light`, fitted on a data frame."""
    import lightgbm

    settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, lightgbm.Dataset(flowers(), SPECIES), 4).save_model(folder / file)
    return folder / file


@cache
def _fitted(kind: str) -> Any:
    if kind == "arrays":
        return classifier()
    if kind == "boosted":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(FLOWERS, SPECIES)
    import lightgbm

    settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
    return lightgbm.train(settings, lightgbm.Dataset(FLOWERS, SPECIES), 4)


def predicted(kind: str, rows: Any, method: str = "predict") -> Any:
    """What `classifier`, `boosted` or `light` itself makes of these rows."""
    return getattr(_fitted(kind), method)(rows)


def dumped(model: Any, folder: Path, file: str = "model.joblib") -> Path:
    joblib.dump(model, folder / file)
    return folder / file


def secretive() -> Any:
    """A pipeline whose author's own step fails with what no client should read."""
    return make_pipeline(FunctionTransformer(_secret), LinearRegression()).fit(FLOWERS, SPECIES)


def _secret(values: Any) -> Any:
    if np.isnan(values).any():
        raise ValueError("the password is 1234")
    return values
