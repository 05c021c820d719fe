"""Learning from use: which tool was called after which query, stored in the database and as
vectors.
"""
