"""
One table read as a batch: its rows of now, or of a snapshot that is held, with typed columns.

``held`` keeps a snapshot for several reads, ``table`` describes what there is to read, ``layout`` which
columns its rows have, ``plan`` makes the tasks, ``read`` is what a task does, and ``kernel`` takes the lines
of COPY apart.
"""
