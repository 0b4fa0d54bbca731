"""Every public method of clients that others wrote, against one server: it is called, or a row says why it is not."""
