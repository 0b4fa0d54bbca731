from inferstream.plugins.frameworks.xgboost import *
