"""Replacements for the names in TorchServe modules that handlers import."""

from inferstream.ext.hosting import parse_table

PRODUCT = "TorchServe"

VERSION = "0.12.0"
"""The TorchServe release with which the replacements are compatible."""

SENTENCES = {
    "TEXT": "it needs torchtext, which is no longer maintained, so tokenize in a subclass of BaseHandler",
    "OUTPUT": "write the results in postprocess of a VisionHandler subclass",
    "METRICS": "use inferstream.register and inferstream.log",
    "SERVER": "`server start model.mar` serves a model",
    "MICRO": "the server batches if the archive has a batchSize",
}

TABLE = """
ts: from inferstream.plugins.torchserve.names import VERSION as __version__
ts.context: from .context import HandlerContext as Context, RequestProcessor
ts.handler_utils:
ts.handler_utils.micro_batching: no MicroBatching: MICRO
ts.handler_utils.timer: from .calls import measure_time as timed
ts.handler_utils.utils: from .calls import send_intermediate_predict_response
ts.metrics:
ts.metrics.dimension: no Dimension: METRICS
ts.metrics.metrics_store: no MetricsStore: METRICS
ts.model_server: no start: SERVER
ts.protocol:
ts.protocol.otf_message_handler: from .calls import send_intermediate_predict_response
ts.service: no Service: SERVER
ts.torch_handler:
ts.torch_handler.base_handler: from .handlers import BaseHandler
ts.torch_handler.image_classifier: from .vision import ImageClassifier
ts.torch_handler.image_segmenter: no ImageSegmenter: OUTPUT
ts.torch_handler.object_detector: no ObjectDetector: OUTPUT
ts.torch_handler.text_classifier: no TextClassifier: TEXT
ts.torch_handler.text_handler: no TextHandler: TEXT
ts.torch_handler.vision_handler: from .vision import VisionHandler
ts.utils:
ts.utils.util: from .calls import PredictionException, list_classes_from_module, load_label_mapping,
      map_class_to_label
"""
"""The replacements, in the same format as in the MLServer table.

Targets that begin with a dot are modules of this package.
"""

MODULES = parse_table(TABLE, SENTENCES, __package__)
"""The table as `{module: {name: target}}`."""
