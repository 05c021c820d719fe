"""Usage statistics: how often tools are called, by whom, with what success and latency."""
