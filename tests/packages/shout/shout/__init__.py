"""One of each: settings, a flag, a command, a dialect, a stage, a facet, a call value, a worker edge, a codec, a runtime and a source."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "shout",
    settings="shout.settings:ShoutSettings",
    flags={"shout-hush-header": Flag("Header of calls that are refused.", after="strict")},
    commands={"shout": "shout.command:shout"},
    dialects={"shout": "shout.dialect:Shout"},
    stages={"hush": "shout.stage:hush"},
    facets={"voice": "shout.facet:voice"},
    call_values={"volume": "shout.volume:VOLUME"},
    workers={"ear": "shout.volume:Ear"},
    codecs={"rot13": "shout.codec"},
    runtimes={"shouting.Loud": "shout.runtime:Loud"},
    sources={"shout": "shout.source:ShoutSource"},
)
