"""scikit-learn on the iris flowers: trains on first load, then serves `predict` and `predict_proba`."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Iris(MLModel):
    def load(self) -> bool:
        flowers = load_iris()
        self._classifier = LogisticRegression(max_iter=1000).fit(flowers.data, flowers.target)
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        features: np.ndarray = self.decode(payload.inputs[0], default_codec=NumpyCodec)
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[
                NumpyCodec.encode_output("predict", self._classifier.predict(features)),
                NumpyCodec.encode_output("predict_proba", self._classifier.predict_proba(features)),
            ],
        )
