from inferstream.plugins.llm.transformers import *
