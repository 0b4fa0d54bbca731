"""Recording of requests, for `server replay`."""

from inferstream.ext import Extension

extension = Extension(
    "record",
    requires=["cloudevents"],
    settings="inferstream.settings.record:RecordSection",
    stages={
        "record": "inferstream.record.stage:record",
    },
    edges={
        "record": "inferstream.record.stage:record_edge",
    },
)
