"""Text: the APIs of OpenAI, Anthropic, Ollama and TGI, audio and rerank."""

from inferstream.ext import Extension

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
)
