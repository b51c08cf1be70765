"""
Folding: what a run of changes of one table comes to, per column.

``result`` says what a fold gives, ``run`` is the way in, ``lineage`` folds tables with a merge key and
``copies`` tables whose rows are found by all their values; ``cells`` and ``keys`` read the envelope.
``gather`` brings the rows together that are folded at once.
"""

from pgsluice.sinks.fold.gather import gathered
from pgsluice.sinks.fold.result import Folded, Patch
from pgsluice.sinks.fold.run import fold

__all__ = ["Folded", "Patch", "fold", "gathered"]
