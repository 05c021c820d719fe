"""Queries in other languages than English: glossaries, and putting a text into English by them."""
