"""Connections that carry messages both ways: stdio, and HTTP+SSE."""
