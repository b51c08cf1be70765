"""
Columns that stay behind: ``choice`` knows which, ``check`` whether that can be, ``apply`` takes them out of
rows, ``described`` out of changes of the schema.
"""
