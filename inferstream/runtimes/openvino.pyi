from inferstream.plugins.llm.openvino import *
