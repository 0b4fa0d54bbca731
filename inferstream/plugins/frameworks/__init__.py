"""Frameworks: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, PyTorch and MLflow."""

from inferstream.ext import Artefact, Extension

LIGHTGBM = "inferstream.runtimes.lightgbm.LightGBMModel"

extension = Extension(
    "frameworks",
    artefacts=(
        Artefact("inferstream.runtimes.mlflow.MLflowModel", names=("MLmodel",), leads=True),
        Artefact("inferstream.runtimes.sklearn.SKLearnModel", suffixes=(".joblib", ".pickle", ".pkl")),
        Artefact(
            "inferstream.runtimes.xgboost.XGBoostModel",
            names=("model.json",),
            suffixes=(".bst", ".ubj"),
            data=(".bst", ".ubj"),
        ),
        Artefact(LIGHTGBM, names=("model.txt",)),
        Artefact(LIGHTGBM, suffixes=(".bst",), begins=b"tree"),
        Artefact("inferstream.runtimes.catboost.CatBoostModel", suffixes=(".cbm",), data=(".cbm",)),
        Artefact(
            "inferstream.runtimes.onnx.OnnxModel",
            suffixes=(".onnx",),
            data=(".onnx", ".onnx_data"),
            yields=True,
        ),
        Artefact("inferstream.runtimes.torch.TorchModel", suffixes=(".pt", ".pt2"), yields=True),
    ),
    runtimes={
        "mlserver_sklearn.SKLearnModel": "inferstream.runtimes.sklearn:SKLearnModel",
        "mlserver_sklearn.sklearn.SKLearnModel": "inferstream.runtimes.sklearn:SKLearnModel",
        "mlserver_xgboost.XGBoostModel": "inferstream.runtimes.xgboost:XGBoostModel",
        "mlserver_xgboost.xgboost.XGBoostModel": "inferstream.runtimes.xgboost:XGBoostModel",
        "mlserver_catboost.CatboostModel": "inferstream.runtimes.catboost:CatBoostModel",
        "mlserver_catboost.catboost.CatboostModel": "inferstream.runtimes.catboost:CatBoostModel",
        "mlserver_mlflow.MLflowRuntime": "inferstream.runtimes.mlflow:MLflowModel",
        "mlserver_mlflow.runtime.MLflowRuntime": "inferstream.runtimes.mlflow:MLflowModel",
        "mlserver_onnx.OnnxModel": "inferstream.runtimes.onnx:OnnxModel",
        "mlserver_lightgbm.LightGBMModel": "inferstream.runtimes.lightgbm:LightGBMModel",
        "mlserver_lightgbm.lightgbm.LightGBMModel": "inferstream.runtimes.lightgbm:LightGBMModel",
    },
)
