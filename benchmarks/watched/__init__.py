"""What watching costs; `python -m benchmarks.watched`."""
