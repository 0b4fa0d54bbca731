"""Requests from a Kafka topic, responses to another."""
