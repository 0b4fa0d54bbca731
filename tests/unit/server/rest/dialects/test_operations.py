"""What the OpenAPI document says of the responses of dialects whose paths do not all stream events."""

import pytest

from inferstream.plugins.text.anthropic.dialect import Anthropic
from inferstream.plugins.text.ollama.dialect import Ollama
from inferstream.plugins.text.openai.dialect import PREFIXES, OpenAI
from inferstream.plugins.text.rerank import Rerank
from inferstream.server.rest.dialects.base import HttpDialect
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters

EVENTS, LINES = "text/event-stream", "application/x-ndjson"


@pytest.mark.parametrize(
    ("dialect", "streams"),
    [
        (Anthropic, {"/v1/messages": EVENTS}),
        (Ollama, {"/api/chat": LINES, "/api/generate": LINES}),
        (Rerank, {}),
        (
            OpenAI,
            {
                prefix + path: EVENTS
                for prefix in PREFIXES
                for path in ("/chat/completions", "/completions", "/responses")
            },
        ),
    ],
)
def test_only_streaming_paths_declare_a_stream_media_type(
    dialect: type[HttpDialect], streams: dict[str, str]
) -> None:
    paths = dialect(None, Settings(), Meters()).described()  # type: ignore[arg-type]
    described = {
        path: [*each["post"]["responses"]["200"]["content"]] for path, each in paths.items() if "post" in each
    }
    assert described == {
        path: ["application/json", *([streams[path]] if path in streams else [])] for path in described
    }
    assert described.keys() >= streams.keys()
