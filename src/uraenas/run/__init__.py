"""The run directory, its settings, and the stages on it."""
