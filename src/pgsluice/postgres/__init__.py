"""
Talking to a PostgreSQL server, be it the source or a target.

``address`` reads and shows connection strings, ``session`` has what every session of ours is opened with,
``refusals`` what a server means that lets nobody in.
"""
