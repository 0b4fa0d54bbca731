"""Runtimes that serve models of known frameworks without model code. They subclass `MLModel`."""
