"""One of each part that a package can bring."""

from inferstream.ext import Artefact, Extension, Flag

extension = Extension(
    "shout",
    settings="shout.settings:ShoutSettings",
    flags={"shout-hush-header": Flag("Header of calls that are refused.", after="strict")},
    commands={"shout": "shout.command:shout"},
    dialects={"shout": "shout.dialect:Shout"},
    actions={"listen": "shout.action:LISTEN"},
    stream_dialects={"shout": "shout.stream:ShoutStream"},
    rpcs={"shout": "shout.rpc:ShoutService"},
    messages={"count": "shout.count"},
    stages={"hush": "shout.stage:hush"},
    meters={"hush": "shout.meters:HushMeters"},
    facets={"voice": "shout.facet:voice"},
    call_values={"volume": "shout.volume:VOLUME"},
    workers={"ear": "shout.volume:Ear"},
    codecs={"rot13": "shout.codec"},
    runtimes={"shouting.Loud": "shout.runtime:Loud"},
    sources={"shout": "shout.source:ShoutSource"},
    artefacts=[Artefact("shout.table.WeightedSum", names=["weights.json"])],
    modules={"megaphone": "shout.names"},
)
