"""Client connections: their number, timeouts and memory, and fairness between callers."""
