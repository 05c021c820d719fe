"""Storage: the SQL database with its migrations, the caches, the change feed."""
