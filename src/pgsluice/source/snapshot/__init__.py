"""
Copying tables: all of them at one point of the stream, in ranges that tasks read at the same time.

``point`` holds the snapshot and knows its LSN, ``tables`` what there is to copy, ``ranges`` how it is cut,
``copy_out`` brings the bytes of a range, ``parse`` and ``kernel`` make entries of them.
"""
