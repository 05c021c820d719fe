"""Lexical search: tokens, postings, BM25, spelling."""
