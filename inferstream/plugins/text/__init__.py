"""Text plug-in: the OpenAI, Anthropic, Ollama, TGI and OIP generate APIs, audio and reranking."""

from inferstream.ext import Extension

OPTIONAL_INPUTS = """
messages tools chat_template_kwargs response_format images audio suffix
max_tokens temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty
logprobs top_logprobs logit_bias stream
"""

extension = Extension(
    "text",
    settings="inferstream.plugins.text.state_settings:StateSettings",
    model_settings="inferstream.plugins.text.settings:TextSettings",
    dialects={
        "anthropic": "inferstream.plugins.text.anthropic.dialect:Anthropic",
        "audio-speech": "inferstream.plugins.text.audio.speech:Speech",
        "audio-transcription": "inferstream.plugins.text.audio.transcription:Transcription",
        "ollama": "inferstream.plugins.text.ollama.dialect:Ollama",
        "openai": "inferstream.plugins.text.openai.dialect:OpenAI",
        "rerank": "inferstream.plugins.text.rerank:Rerank",
        "tgi": "inferstream.plugins.text.tgi.dialect:Tgi",
    },
    facets={
        "text": "inferstream.plugins.text.interface:build_text_interface",
        "oip": "inferstream.plugins.text.oip.requests:build_text_generation",
    },
    hints={"chat": "inferstream.plugins.text.hints:chat"},
    json_inputs=["messages", "tools", "response_format"],
    optional_inputs=OPTIONAL_INPUTS.split(),
)
