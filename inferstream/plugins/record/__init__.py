"""Recording of requests, for `server replay`."""

from inferstream.ext import Extension

extension = Extension(
    "record",
    requires=["cloudevents"],
    settings="inferstream.plugins.record.settings:RecordSection",
    stages={
        "record": "inferstream.plugins.record.stage:record",
    },
    edges={
        "record": "inferstream.plugins.record.stage:record_edge",
    },
)
