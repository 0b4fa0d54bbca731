from inferstream.plugins.llm.huggingface import *
