"""One seed of random schema changes among rows, with kills. The soak runs others, as long as it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schema_changes.random_trial import change_and_compare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

SEED = 7300


@pytest.mark.timeout(300)
def test_a_seed(database: Database, target_database: Database, tmp_path: Path, proof: Proof) -> None:
    """Killed in its first copy and after it, in the end the target is the source."""
    proof(change_and_compare(SEED, database, target_database, tmp_path, kills=2, copy_kills=1))
