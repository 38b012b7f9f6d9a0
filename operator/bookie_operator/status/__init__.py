"""Turns a plan into what people and tools read: status, conditions, events. Pure."""
