"""inferstream: a streaming model server for the V2 / Open Inference Protocol."""
