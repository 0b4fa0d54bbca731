from inferstream.plugins.frameworks.lightgbm import *
