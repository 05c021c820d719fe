"""What the process asks of the interpreter, the allocator and the system about its memory."""
