"""Replacements for the names in the `mlserver_huggingface` package."""

from inferstream.ext.hosting import parse_table

PRODUCT = "MLServer"

VERSION = "1.7.1"
"""The compatible release of `mlserver_huggingface`."""

TABLE = """
mlserver_huggingface: from .mlserver_runtime import HuggingFaceRuntime, STANDS_IN
  from mlserver_huggingface.version import __version__
mlserver_huggingface.codecs: from mlserver_huggingface.codecs.base import HuggingfaceRequestCodec
mlserver_huggingface.codecs.base: from .mlserver_runtime import HuggingfaceRequestCodec
mlserver_huggingface.runtime: from .mlserver_runtime import HuggingFaceRuntime, STANDS_IN
mlserver_huggingface.settings: from .mlserver_runtime import HuggingFaceSettings
mlserver_huggingface.version: from inferstream.plugins.llm.mlserver_names import VERSION as __version__
"""

MODULES = parse_table(TABLE, {}, __package__)
