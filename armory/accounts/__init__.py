"""Who uses Armory and how: users, keys, packs, statistics, plans, the query log."""
