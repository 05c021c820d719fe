"""Memory of the process: garbage collector, allocator, huge pages."""
