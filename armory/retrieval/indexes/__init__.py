"""retrieval/indexes"""
