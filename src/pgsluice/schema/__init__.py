"""What tables look like: versions of relations, types, and the catalog they come from."""
