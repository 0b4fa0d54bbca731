"""Writes model.json; the server needs no other code for it."""

from pathlib import Path

from sklearn.datasets import load_iris
from xgboost import XGBClassifier

flowers, species = load_iris(return_X_y=True)
classifier = XGBClassifier(n_estimators=3, max_depth=2).fit(flowers, species)
classifier.save_model(Path(__file__).with_name("model.json"))
