"""The seam: entries, positions, and the durable log that everything else reads."""
