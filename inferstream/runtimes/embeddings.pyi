from inferstream.plugins.llm.embeddings import *
