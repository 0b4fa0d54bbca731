"""Tools: commands that build, check, measure and replay."""

from inferstream.ext import Extension

extension = Extension(
    "tools",
    requires=["traffic"],
    commands={
        "bench": "inferstream.tools.commands:bench",
        "build": "inferstream.tools.commands:build",
        "check": "inferstream.tools.commands:check",
        "dockerfile": "inferstream.tools.commands:dockerfile",
        "infer": "inferstream.tools.commands:infer",
        "replay": "inferstream.tools.replay.command:replay",
        "stub": "inferstream.tools.commands:stub",
        "tail": "inferstream.tools.commands:tail",
        "top": "inferstream.tools.commands:top",
    },
)
