"""Request and response parameters of Triton."""

FINAL_RESPONSE = "triton_final_response"
"""A response parameter: true if no other response follows."""

WANTS_EMPTY_FINAL = "triton_enable_empty_final_response"
"""A request parameter: whether the client expects a last response without outputs."""
