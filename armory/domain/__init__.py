"""The vocabulary of Armory: immutable values, standard library only."""
