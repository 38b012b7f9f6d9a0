"""The real world: every real socket, file, thread and clock of the product. Knows nothing of what runs on it."""
