"""Front-end processes: several processes that serve the same models on the same ports."""
