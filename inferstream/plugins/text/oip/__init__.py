"""Text generation of the Open Inference Protocol: `text_input` at `generate` and `generate_stream`."""
