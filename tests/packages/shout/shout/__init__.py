"""One of each: settings, a command, a dialect, a stage, meters, a facet, a call value, a codec, a runtime and a source."""

from inferstream.ext import Extension

extension = Extension(
    "shout",
    settings="shout.settings:ShoutSettings",
    commands={"shout": "shout.command:shout"},
    dialects={"shout": "shout.dialect:Shout"},
    stages={"hush": "shout.stage:hush"},
    meters={"hush": "shout.meters:HushMeters"},
    facets={"voice": "shout.facet:voice"},
    call_values={"volume": "shout.volume:VOLUME"},
    workers={"ear": "shout.volume:Ear"},
    codecs={"rot13": "shout.codec"},
    runtimes={"shouting.Loud": "shout.runtime:Loud"},
    sources={"shout": "shout.source:ShoutSource"},
)
