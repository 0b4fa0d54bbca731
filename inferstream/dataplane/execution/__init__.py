"""Where model code runs."""
