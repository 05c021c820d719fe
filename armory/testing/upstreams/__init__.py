"""Scripted upstream servers: what they answer, and each transport that they speak."""
