"""Configuration, assembly and the loop that carries batches to sinks."""
