"""Entry logs: where entries live. Written sorted by checkpoints, read by location, dropped whole."""
