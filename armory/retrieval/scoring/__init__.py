"""From signals to a score that means something."""
