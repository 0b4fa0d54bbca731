from inferstream.plugins.frameworks.mlflow import *
