"""Requests from a Kafka topic, answers to another."""
