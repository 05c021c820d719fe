"""What a list request asks for: the query and what stands beside it, wherever it is carried."""
