"""From a plan to what people and tools read: status, conditions, events. Pure."""
