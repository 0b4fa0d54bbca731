"""Frameworks: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, PyTorch and MLflow."""

from inferstream.ext import Artefact, Extension

LIGHTGBM = "inferstream.plugins.frameworks.lightgbm.LightGBMModel"

MOVED = (
    *("catboost", "estimators", "lightgbm", "mlflow", "onnx"),
    *("sklearn", "tables", "tensors", "torch", "xgboost"),
)
"""Modules that moved here from `inferstream.runtimes`."""

extension = Extension(
    "frameworks",
    artefacts=(
        Artefact("inferstream.plugins.frameworks.mlflow.MLflowModel", names=("MLmodel",), leads=True),
        Artefact(
            "inferstream.plugins.frameworks.sklearn.SKLearnModel", suffixes=(".joblib", ".pickle", ".pkl")
        ),
        Artefact(
            "inferstream.plugins.frameworks.xgboost.XGBoostModel",
            names=("model.json",),
            suffixes=(".bst", ".ubj"),
            data=(".bst", ".ubj"),
        ),
        Artefact(LIGHTGBM, names=("model.txt",)),
        Artefact(LIGHTGBM, suffixes=(".bst",), begins=b"tree"),
        Artefact("inferstream.plugins.frameworks.catboost.CatBoostModel", suffixes=(".cbm",), data=(".cbm",)),
        Artefact(
            "inferstream.plugins.frameworks.onnx.OnnxModel",
            suffixes=(".onnx",),
            data=(".onnx", ".onnx_data"),
            yields=True,
        ),
        Artefact("inferstream.plugins.frameworks.torch.TorchModel", suffixes=(".pt", ".pt2"), yields=True),
    ),
    moved={f"runtimes.{name}": f"inferstream.plugins.frameworks.{name}" for name in MOVED},
    runtimes={
        "catboost": "inferstream.plugins.frameworks.catboost:CatBoostModel",
        "lightgbm": "inferstream.plugins.frameworks.lightgbm:LightGBMModel",
        "mlflow": "inferstream.plugins.frameworks.mlflow:MLflowModel",
        "onnx": "inferstream.plugins.frameworks.onnx:OnnxModel",
        "sklearn": "inferstream.plugins.frameworks.sklearn:SKLearnModel",
        "torch": "inferstream.plugins.frameworks.torch:TorchModel",
        "xgboost": "inferstream.plugins.frameworks.xgboost:XGBoostModel",
        "mlserver_sklearn.SKLearnModel": "inferstream.plugins.frameworks.sklearn:SKLearnModel",
        "mlserver_sklearn.sklearn.SKLearnModel": "inferstream.plugins.frameworks.sklearn:SKLearnModel",
        "mlserver_xgboost.XGBoostModel": "inferstream.plugins.frameworks.xgboost:XGBoostModel",
        "mlserver_xgboost.xgboost.XGBoostModel": "inferstream.plugins.frameworks.xgboost:XGBoostModel",
        "mlserver_catboost.CatboostModel": "inferstream.plugins.frameworks.catboost:CatBoostModel",
        "mlserver_catboost.catboost.CatboostModel": "inferstream.plugins.frameworks.catboost:CatBoostModel",
        "mlserver_mlflow.MLflowRuntime": "inferstream.plugins.frameworks.mlflow:MLflowModel",
        "mlserver_mlflow.runtime.MLflowRuntime": "inferstream.plugins.frameworks.mlflow:MLflowModel",
        "mlserver_lightgbm.LightGBMModel": "inferstream.plugins.frameworks.lightgbm:LightGBMModel",
        "mlserver_lightgbm.lightgbm.LightGBMModel": "inferstream.plugins.frameworks.lightgbm:LightGBMModel",
    },
)
