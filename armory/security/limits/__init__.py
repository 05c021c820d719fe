"""Rate limits and quotas, and counting them in one process."""
