"""Text: the APIs of OpenAI, Anthropic, Ollama and TGI, audio and rerank."""

from inferstream.ext import Extension

OPTIONAL_INPUTS = """
messages tools chat_template_kwargs response_format images audio suffix
max_tokens temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty
logprobs top_logprobs logit_bias stream
"""

extension = Extension(
    "text",
    settings="inferstream.settings.state:StateSettings",
    model_settings="inferstream.plugins.text.settings:TextSettings",
    dialects={
        "anthropic": "inferstream.server.rest.dialects.anthropic.dialect:Anthropic",
        "audio-speech": "inferstream.server.rest.dialects.audio.speech:Speech",
        "audio-transcription": "inferstream.server.rest.dialects.audio.transcription:Transcription",
        "ollama": "inferstream.server.rest.dialects.ollama.dialect:Ollama",
        "openai": "inferstream.server.rest.dialects.openai.dialect:OpenAI",
        "rerank": "inferstream.server.rest.dialects.rerank:Rerank",
        "tgi": "inferstream.server.rest.dialects.tgi.dialect:Tgi",
    },
    facets={"text": "inferstream.text.interface:text_interface"},
    hints={"chat": "inferstream.text.hints:chat"},
    json_inputs=["messages", "tools", "response_format"],
    optional_inputs=OPTIONAL_INPUTS.split(),
)
