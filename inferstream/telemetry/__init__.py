"""What operators see: meters and log lines."""
