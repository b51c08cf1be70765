"""Where changes come from: slot, publication, listener, decoder."""
