"""The connections of clients: their number, their times, their memory, whose turn it is."""
