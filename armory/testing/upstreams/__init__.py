"""Scripted upstream servers: their answers, and the transports that they speak."""
