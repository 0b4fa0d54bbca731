"""The engine over our own HTTP/2: the head of a call, the call, and its port."""
