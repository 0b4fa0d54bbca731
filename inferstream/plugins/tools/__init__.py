"""Command-line tools that build, test, benchmark and replay models."""

from inferstream.ext import Extension

extension = Extension(
    "tools",
    requires=["traffic"],
    commands={
        "bench": "inferstream.plugins.tools.commands:bench",
        "build": "inferstream.plugins.tools.commands:build",
        "check": "inferstream.plugins.tools.commands:check",
        "dockerfile": "inferstream.plugins.tools.commands:dockerfile",
        "infer": "inferstream.plugins.tools.commands:infer",
        "replay": "inferstream.plugins.tools.replay.command:replay",
        "stub": "inferstream.plugins.tools.commands:stub",
        "tail": "inferstream.plugins.tools.commands:tail",
        "top": "inferstream.plugins.tools.commands:top",
    },
    panels={
        **dict.fromkeys(("build", "dockerfile", "stub"), "Build"),
        **dict.fromkeys(("bench", "check", "infer", "replay", "tail", "top"), "Call and inspect"),
    },
)
