"""The suite that every sink passes."""
