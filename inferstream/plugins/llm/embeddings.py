"""Embedding models: one vector for each input string."""

from typing import Any

from inferstream import NumpyCodec, StringCodec, request_context
from inferstream.errors import InvalidRequest
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import TOKEN_IDS
from inferstream.types import InferenceRequest, InferenceResponse, MetadataTensor, Parameters

from .encoder_model import EncoderModel
from .encoders import Encoder, EncoderSettings
from .huggingface_trust import permit_pretrained_call
from .sampling import read_flag, read_tokens, reject_unknown

TRUNCATE = "truncate"
"""Request parameter: if false, input that is too long is an error instead of being truncated."""


class EmbeddingsModel(EncoderModel):
    """An embedding model from a sentence-transformers or transformers folder.

    The response parameter `prompt_tokens` is the number of tokens read. It is omitted if several requests
    share a batch, because each of them would receive the total.
    """

    extra = "embeddings"
    permitted_call = permit_pretrained_call(
        "SentenceTransformer",
        *("backend", "batch_size", "device", "dtype", "max_length", "normalize", "pooling"),
    )

    takes_token_ids = True

    _encoder: Encoder

    async def load(self) -> bool:
        self._encoder = await self._open_encoder(self._validate_settings(EncoderSettings))
        if not self.inputs:
            self.inputs = [MetadataTensor(name="input", datatype="BYTES", shape=[-1])]
        if not self.outputs:
            shape = [-1, self._encoder.dimension]
            self.outputs = [MetadataTensor(name="embedding", datatype="FP32", shape=shape)]
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = {} if payload.parameters is None else dict(payload.parameters.items())
        for name, value in given.items():
            reject_unknown(name, value, (TOKEN_IDS, "prompt_name", TRUNCATE))
        texts: list[Any] = self._texts(payload)
        prompt: Any = self._prompt(payload)
        if given.get(TOKEN_IDS):
            if "prompt_name" in given:
                raise field_error("prompt_name", "prompt_name needs texts, not token numbers")
            name, tokenizer = self.inputs[0].name, self._encoder.tokenizer
            texts = [read_tokens(name, text, len(tokenizer), self._encoder.max_length) for text in texts]
            prompt = []
        elif not read_flag(TRUNCATE, given.get(TRUNCATE, True)):
            self._encoder.check_lengths(self.inputs[0].name, [prompt + text for text in texts])
        vectors, tokens = self._encoder.encode(texts, prompt, request_context())
        outputs = [NumpyCodec.encode_output(self.outputs[0].name, vectors)]
        parameters = Parameters.of({"prompt_tokens": tokens}) if not self._gathers else None
        return InferenceResponse.of(self.name, outputs, self.version, None, parameters)

    def _texts(self, request: InferenceRequest) -> list[str]:
        name = self.inputs[0].name
        if len(request.inputs) != 1:
            raise InvalidRequest(f'the model takes one input "{name}", got {len(request.inputs)}')
        texts = StringCodec.decode_input(request.inputs[0])
        for at, text in enumerate(texts):
            if text is None:
                raise InvalidRequest(f'input "{request.inputs[0].name}": element {at} is null, not a text')
        return texts

    def _prompt(self, request: InferenceRequest) -> str:
        """Return the prompt named by the parameter `prompt_name`, else the default prompt."""
        name = request.parameters.get("prompt_name") if request.parameters is not None else None
        if name is None:
            return self._encoder.default_prompt
        prompt = self._encoder.prompts.get(name)
        if prompt is None:
            known = ", ".join(self._encoder.prompts) or "it has none"
            message = f'prompt_name "{name}" is not one of the model\'s prompts: {known}'
            detail: dict[str, object] = {"loc": ["prompt_name"], "msg": message, "type": "value_error"}
            raise InvalidRequest(message, detail=[detail])
        return prompt
