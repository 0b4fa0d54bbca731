from inferstream.plugins.frameworks.catboost import *
