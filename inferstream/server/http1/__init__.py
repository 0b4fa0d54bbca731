"""HTTP/1 on httptools: connections, requests and limits. It is independent of the services on a port."""
