"""The places where model code runs."""
