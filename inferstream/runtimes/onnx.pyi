from inferstream.plugins.frameworks.onnx import *
