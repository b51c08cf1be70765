"""From entries to the messages that other systems know, and back."""
