"""retrieval/embedders"""
