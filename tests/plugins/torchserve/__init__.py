"""What stands in for TorchServe."""
