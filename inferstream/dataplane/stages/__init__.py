"""One behaviour each: a handler around a handler, right for single answers and streams alike."""
