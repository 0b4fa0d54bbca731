"""What every door promises, whoever serves it and wherever the model runs."""
