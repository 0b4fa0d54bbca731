"""Meters and log lines, for operators."""
