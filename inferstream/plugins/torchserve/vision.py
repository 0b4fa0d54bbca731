"""`VisionHandler` and `ImageClassifier`, which need torchvision and Pillow."""

import base64
import io
from typing import Any

from inferstream.errors import MissingExtra

from .calls import map_class_to_label
from .handlers import BaseHandler

try:
    import torch
    import torch.nn.functional as functions
    from PIL import Image
    from torchvision import transforms
except ModuleNotFoundError as missing:
    raise MissingExtra("a handler of images", "torchserve", missing) from None


class VisionHandler(BaseHandler):
    """Decodes images from files, base64 strings or lists of numbers."""

    image_processing: Any

    def preprocess(self, data: list[Any]) -> Any:
        return torch.stack([self._read(row.get("data") or row.get("body")) for row in data]).to(self.device)

    def _read(self, image: Any) -> Any:
        if isinstance(image, str):
            image = base64.b64decode(image)
        if isinstance(image, bytes | bytearray):
            return self.image_processing(Image.open(io.BytesIO(image)))
        return torch.FloatTensor(image)


class ImageClassifier(VisionHandler):
    """Returns the most likely classes of an image, by name."""

    topk = 5
    image_processing = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )

    def set_max_result_classes(self, topk: int) -> None:
        self.topk = topk

    def get_max_result_classes(self) -> int:
        return self.topk

    def postprocess(self, data: Any) -> list[Any]:
        probabilities, classes = torch.topk(functions.softmax(data, dim=1), self.topk, dim=1)
        return map_class_to_label(probabilities.tolist(), self.mapping, classes.tolist())
