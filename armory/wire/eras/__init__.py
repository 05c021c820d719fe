"""The differences between protocol eras, as pure functions."""
