"""Who uses Armory and how: users, keys, packs, statistics, quotas, the query log."""
