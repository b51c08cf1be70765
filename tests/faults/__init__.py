"""Real processes, real crashes: after each, source equals target."""
