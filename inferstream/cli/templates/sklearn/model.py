"""A scikit-learn classifier, loaded from `model.joblib` in this folder or else trained on the iris data."""

from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse

TRAINED = Path(__file__).with_name("model.joblib")


class Model(MLModel):
    def load(self) -> bool:
        if TRAINED.exists():
            self._classifier = joblib.load(TRAINED)
        else:
            flowers = load_iris()
            self._classifier = LogisticRegression(max_iter=1000).fit(flowers.data, flowers.target)
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        features: np.ndarray = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[
                NumpyCodec.encode_output("predict", self._classifier.predict(features)),
                NumpyCodec.encode_output("predict_proba", self._classifier.predict_proba(features)),
            ],
        )
