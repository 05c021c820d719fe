"""The running gateway over REST: its state, its tools, searches and calls."""
