"""Quality: every labelled set through every ranker."""
