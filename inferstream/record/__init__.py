"""The flight recorder: requests, responses and streams as they crossed the ports, in a file for `server replay`."""
