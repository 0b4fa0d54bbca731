"""One of each: settings, a command, a dialect, an operation, a stage, a facet, a call value, a worker edge, a codec, a runtime and a source."""

from inferstream.ext import Extension

extension = Extension(
    "shout",
    settings="shout.settings:ShoutSettings",
    commands={"shout": "shout.command:shout"},
    dialects={"shout": "shout.dialect:Shout"},
    actions={"listen": "shout.action:LISTEN"},
    stages={"hush": "shout.stage:hush"},
    facets={"voice": "shout.facet:voice"},
    call_values={"volume": "shout.volume:VOLUME"},
    workers={"ear": "shout.volume:Ear"},
    codecs={"rot13": "shout.codec"},
    runtimes={"shouting.Loud": "shout.runtime:Loud"},
    sources={"shout": "shout.source:ShoutSource"},
)
