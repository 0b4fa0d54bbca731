"""A conformance test suite for servers of the V2 / Open Inference Protocol.

Each case tests protocol sentences.
"""
