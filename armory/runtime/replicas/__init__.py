"""One replica among others: what all of them share, and what is meant for all."""
