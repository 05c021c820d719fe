"""How often tools are called, by whom and how well: counted, kept, summed up."""
