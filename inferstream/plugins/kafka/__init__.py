"""Kafka: requests from one topic, responses to another."""

from inferstream.ext import Extension

extension = Extension(
    "kafka",
    settings="inferstream.plugins.kafka.settings:KafkaSettings",
    requires=["cloudevents", "otel"],
    doors={
        "kafka": "inferstream.plugins.kafka.door:KafkaDoor",
    },
)
