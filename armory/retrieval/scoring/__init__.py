"""Calibration: from signals to comparable scores."""
