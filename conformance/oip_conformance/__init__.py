"""Tests of any server of the V2 / Open Inference Protocol, sentence by sentence."""
