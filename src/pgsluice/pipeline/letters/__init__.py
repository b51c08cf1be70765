"""
Rows that a target refuses: found, kept apart with the later changes of the same rows, and replayed.

Read ``desk.py`` first: it stands between a sink's loop and its sink.
"""
