"""The doors: bytes in, bytes out; and the life of the process."""
