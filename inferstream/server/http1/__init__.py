"""HTTP/1 on httptools: connections, requests, and the guard of the ports. It knows nothing of what is served."""
