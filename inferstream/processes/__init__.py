"""Building blocks of the server's processes: spawning, frames, descriptor passing and shared memory."""
