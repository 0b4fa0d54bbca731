from inferstream.plugins.llm.llamacpp import *
