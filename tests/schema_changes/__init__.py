"""Changes of the schema: what the source's triggers note, and what targets make of it."""
