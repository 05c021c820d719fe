"""retrieval/rankers"""
