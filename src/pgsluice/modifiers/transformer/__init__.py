"""Values changed by rules: ``rules.py`` has their form, ``check.py`` finds faults, ``apply.py`` applies."""
