from inferstream.plugins.llm.engine import *
