"""Parameters of requests and responses that Triton's clients know."""

FINAL_RESPONSE = "triton_final_response"
"""Of a response: true if no other one follows."""

WANTS_EMPTY_FINAL = "triton_enable_empty_final_response"
"""Of a request: whether its client wants a last response without outputs."""
