"""`server replay`: sends recorded requests again and compares the results."""
