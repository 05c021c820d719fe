"""What callers may use: rates, quotas, and counting them in one process."""
