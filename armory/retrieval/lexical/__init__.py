"""Words: tokens, postings, BM25, spelling."""
