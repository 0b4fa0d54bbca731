"""Frameworks: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, PyTorch and MLflow."""

from inferstream.ext import Extension

extension = Extension(
    "frameworks",
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
