"""
Comparing what targets hold with the source, row by row, while both may change.

``plan`` says what is compared, ``sides`` reads the source as the target would hold it, ``settle`` compares,
``report`` is what is told of it, and ``verify`` puts them together.
"""
