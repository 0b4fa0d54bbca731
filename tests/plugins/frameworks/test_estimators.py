"""What runtimes say of models without code, held against what the models take and return."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBRegressor

from inferstream import ModelSettings
from inferstream.ext.runtimes import Runtime
from inferstream.plugins.frameworks.lightgbm import LightGBMModel
from inferstream.plugins.frameworks.sklearn import SKLearnModel
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.types import InferenceRequest, MetadataTensor, RequestInput, RequestOutput
from tests.artefacts import models

X, Y = models.FLOWERS, models.SPECIES
NAMES = np.array(["setosa", "versicolor", "virginica"])
FRAME = models.flowers()
TWO = np.c_[X[:, 0], X[:, 1]]
NARROW = X.astype(np.float32)

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=999).fit(X, Y),
    "binary": lambda: LogisticRegression().fit(X, Y == 1),
    "named classes": lambda: LogisticRegression(max_iter=999).fit(FRAME, NAMES[Y]),
    "narrow": lambda: LogisticRegression(max_iter=999).fit(NARROW, Y),
    "tree": lambda: DecisionTreeClassifier().fit(X, Y.astype(float)),
    "trees of two": lambda: DecisionTreeClassifier().fit(X, np.c_[Y, Y > 1]),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=2).fit(X, Y),
    "neighbours": lambda: KNeighborsClassifier().fit(X, Y),
    "bayes": lambda: GaussianNB().fit(X, Y),
    "vectors": lambda: SVC().fit(X, Y),
    "linear vectors": lambda: LinearSVC().fit(X, Y > 0),
    "layers": lambda: MLPClassifier(3, max_iter=2000).fit(NARROW, Y),
    "several classes": lambda: MultiOutputClassifier(GaussianNB()).fit(X, np.c_[Y, Y > 1]),
    "linear": lambda: LinearRegression().fit(X, Y),
    "narrow linear": lambda: LinearRegression().fit(NARROW, NARROW[:, 0]),
    "linear of two": lambda: LinearRegression().fit(FRAME, TWO),
    "ridge": lambda: Ridge().fit(X, TWO),
    "forest": lambda: RandomForestRegressor(2).fit(X, TWO),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=2).fit(FRAME, Y),
    "support": lambda: SVR().fit(X, Y),
    "near": lambda: KNeighborsRegressor().fit(X, TWO),
    "layered": lambda: MLPRegressor(hidden_layer_sizes=3, max_iter=2000).fit(X, TWO),
    "chained": lambda: RegressorChain(SVR()).fit(X, TWO),
    "transformed": lambda: TransformedTargetRegressor(Ridge()).fit(X, TWO),
    "in a pipeline": lambda: make_pipeline(StandardScaler(), XGBRegressor(n_estimators=2)).fit(X, Y),
    "several": lambda: MultiOutputRegressor(SVR()).fit(X, TWO),
    "clusters": lambda: KMeans(2, n_init=1).fit(FRAME),
    "outliers": lambda: IsolationForest(n_estimators=2).fit(X),
    "search": lambda: GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 2]}, cv=2).fit(
        X, Y
    ),
    "pipeline": lambda: make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(FRAME, Y),
    "scaler": lambda: StandardScaler().fit(FRAME),
    "narrow scaler": lambda: MinMaxScaler().fit(NARROW),
    "components": lambda: make_pipeline(StandardScaler(), PCA(2)).fit(X),
    "polynomial": lambda: PolynomialFeatures(2).fit(X),
    "imputer": lambda: SimpleImputer().fit(FRAME),
    "union": lambda: make_union(StandardScaler(), PCA(2)).fit(X),
    "function": lambda: FunctionTransformer(np.log1p).fit(X),
    "one-hot": lambda: OneHotEncoder().fit(models.people()[["city"]]),
    "ordinal": lambda: OrdinalEncoder(dtype=np.int64).fit(models.people()),
    "texts": models.text_classifier,
    "vectorizer": lambda: TfidfVectorizer().fit(["good day", "night"]),
    "people": models.frame_pipeline,
    "selected": lambda: make_pipeline(
        ColumnTransformer(
            [
                ("numbers", StandardScaler(), make_column_selector(dtype_include="number")),
                ("texts", OneHotEncoder(), ["city"]),
                ("words", TfidfVectorizer(), "words"),
                ("none", "drop", ["note"]),
            ]
        ),
        LogisticRegression(),
    ).fit(models.people().assign(words=["good day", "bad day"] * 2, note="x"), [0, 1, 0, 1]),
    "rest": lambda: ColumnTransformer([("age", StandardScaler(), [0])], remainder="passthrough").fit(X),
    "hashes": lambda: make_pipeline(HashingVectorizer(n_features=8), LogisticRegression()).fit(
        ["a", "b"], [0, 1]
    ),
}


async def served(estimator: Any, folder: Path) -> Runtime:
    return await loaded(SKLearnModel, models.dumped(estimator, folder))


async def loaded(runtime: type[Runtime], path: Path, **settings: Any) -> Runtime:
    model = runtime(
        ModelSettings(name="m", implementation=runtime, parameters={"uri": str(path)}, **settings)
    )
    assert await model.load()
    return model


def values_of(tensor: MetadataTensor, estimator: Any) -> list[Any]:
    """Two rows for a described input."""
    count = 2 * int(np.prod([1 if size == -1 else size for size in tensor.shape]))
    if tensor.datatype == "BYTES":
        return [{"city": ["Rome", "Oslo"]}.get(tensor.name, ["good", "day"])[row % 2] for row in range(count)]
    return [20 + row % 2 * 10 for row in range(count)]


async def check_outputs(model: Runtime, estimator: Any = None) -> None:
    """A request for what metadata show, and the response beside what metadata show."""
    metadata = await model.metadata()
    assert metadata.inputs, "the inputs are not known"
    inputs = [
        RequestInput(
            name=tensor.name,
            datatype=tensor.datatype,
            shape=[2 if size == -1 else size for size in tensor.shape],
            data=values_of(tensor, estimator),
        )
        for tensor in metadata.inputs
    ]
    for shown in metadata.outputs or ():
        request = InferenceRequest(inputs=inputs, outputs=[RequestOutput(name=shown.name)])
        (output,) = model.predict(request).outputs
        assert (output.name, output.datatype) == (shown.name, shown.datatype)
        assert output.shape == [2 if size == -1 else size for size in shown.shape]
        assert shown.parameters is not None
        if (classes := shown.parameters.get("classes")) is not None:
            assert orjson.loads(classes) == estimator.classes_.tolist()


UNKNOWN = {
    **{name: {"transform"} for name in ("union", "function", "rest")},
    **{name: {"predict_proba"} for name in ("trees of two", "several classes")},
}
"""Outputs that are served and not described, because nothing says what they are without a run."""


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
async def test_metadata_matches_predictions(tmp_path: Path, name: str) -> None:
    estimator = ESTIMATORS[name]()
    model = await served(estimator, tmp_path)
    await check_outputs(model, estimator)
    shown = {output.name for output in (await model.metadata()).outputs or ()}
    assert shown == model._functions.keys() - UNKNOWN.get(name, set())


async def test_metadata_of_boosted_models(tmp_path: Path) -> None:
    import lightgbm
    import xgboost

    cases = {
        "classifier": xgboost.XGBClassifier(n_estimators=2).fit(FRAME, Y),
        "binary": xgboost.XGBClassifier(n_estimators=2).fit(X, Y > 1),
        "regressor": xgboost.XGBRegressor(n_estimators=2).fit(FRAME, Y),
        "targets": xgboost.XGBRegressor(n_estimators=2).fit(X, TWO),
        "ranker": xgboost.XGBRanker(n_estimators=2).fit(X, Y, qid=np.zeros(len(Y))),
        "probabilities": xgboost.train(
            {"objective": "multi:softprob", "num_class": 3}, xgboost.DMatrix(X, Y), 2
        ),
    }
    for name, estimator in cases.items():
        estimator.save_model(path := tmp_path / f"{name}.json")
        model = await loaded(XGBoostModel, path)
        await check_outputs(model, model._model)
        shown = [output.name for output in (await model.metadata()).outputs or ()]
        assert shown == (["predict", "predict_proba"] if name in ("classifier", "binary") else ["predict"])
    for classes, objective in ((1, "binary"), (3, "multiclass"), (1, "regression")):
        settings = {"objective": objective, "num_class": classes, "verbose": -1}
        labels = Y if classes == 3 else Y > 0
        booster = lightgbm.train(settings, lightgbm.Dataset(FRAME, labels), 2)
        booster.save_model(path := tmp_path / f"{objective}.bst")
        model = await loaded(LightGBMModel, path)
        await check_outputs(model)
        assert [output.shape for output in (await model.metadata()).outputs or ()] == [[-1, classes]]
