"""
The part of Go's templates that rules use: ``parse.py`` reads them, ``functions.py`` says what can be called.

``evaluate.py`` has the two ways to evaluate one, SQL and Python; a test holds them equal. What is outside of
the part is refused when a template is read, by its name.
"""
