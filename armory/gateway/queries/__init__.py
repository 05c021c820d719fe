"""The parameters of a list request: the query, its limits and its filters, wherever they are
carried.
"""
