"""The running gateway over REST: what it is, holds, finds and does."""
