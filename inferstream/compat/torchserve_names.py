"""TorchServe's modules that handlers import: the object of each name, or the replacement to use."""

from inferstream.ext.hosting import parse_table

PRODUCT = "TorchServe"

VERSION = "0.12.0"
"""The release of TorchServe that these modules follow."""

SENTENCES = {
    "TEXT": "it needs torchtext, which has ended; a subclass of BaseHandler with a tokenizer of its own reads texts",
    "OUTPUT": "a subclass of VisionHandler with a postprocess of its own writes what the model finds",
    "METRICS": "inferstream.register and inferstream.log count what a model wants to count",
    "SERVER": "`server start model.mar` serves a model",
    "MICRO": "the server batches where the settings of an archive name a batchSize",
}

TABLE = """
ts: from inferstream.compat.torchserve_names import VERSION as __version__
ts.context: from .context import HandlerContext as Context, RequestProcessor
ts.handler_utils:
ts.handler_utils.micro_batching: no MicroBatching: MICRO
ts.handler_utils.timer: from .calls import timed
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
"""The same as MLServer's table. Targets that begin with a dot are in `compat/torchserve`."""

MODULES = parse_table(TABLE, SENTENCES, "torchserve")
"""The table as {module: {name: target}}."""
