"""What the driver itself has to remember between runs."""
