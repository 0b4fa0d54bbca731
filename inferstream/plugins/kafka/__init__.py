"""Kafka: requests from one topic, responses to another."""

from inferstream.ext import Extension

extension = Extension(
    "kafka",
    doors={
        "kafka": "inferstream.kafka.door:KafkaDoor",
    },
)
