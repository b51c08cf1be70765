"""
One table read as a batch: its rows of now, or of a snapshot that is held, with typed columns.

``held`` keeps a snapshot for several reads, ``table`` describes what there is to read, ``layout`` which
columns its rows have, ``plan`` makes the tasks, ``read`` is what a task does. ``kernel`` takes the lines of
COPY's text apart; ``forms`` says which columns can come in the binary format, and ``binary`` with ``fields``
and ``odd_values`` reads them.
"""
