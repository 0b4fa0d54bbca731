"""Front ends: several processes that serve the same models at the same ports."""
