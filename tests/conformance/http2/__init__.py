"""HTTP/2 (RFC 9113) and header compression (RFC 7541) as tables of raw frames and the reaction that they need."""
