"""Authentication, authorization (policy), rate limits and tool pinning."""
