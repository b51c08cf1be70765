"""Publications of the source: in a target that is asked to have them, and never those of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import PostgresSink
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.source.schema_log import read_log
from tests.schema_changes.test_ways import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

CHANGES = (
    "CREATE PUBLICATION p FOR TABLE a (id), b WHERE (id > 5) WITH (publish = 'insert, delete')",
    "CREATE PUBLICATION gone FOR TABLE a",
    "CREATE PUBLICATION whole FOR ALL TABLES",
    "CREATE PUBLICATION nothing",
    "ALTER PUBLICATION p SET (publish = 'insert', publish_via_partition_root = true)",
    "ALTER TABLE a RENAME TO a2",
    "ALTER PUBLICATION p ADD TABLE c",
    "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA s, TABLE b",
    'ALTER PUBLICATION p RENAME TO "P two"',
    "COMMENT ON PUBLICATION whole IS 'all'",
    'ALTER PUBLICATION "P two" DROP TABLE a2',
    "DROP TABLE b",
    "DROP PUBLICATION gone",
    "INSERT INTO c VALUES (1)",
)
PUBLISHED = """
SELECT p.pubname::text, p.puballtables, p.pubinsert, p.pubupdate, p.pubviaroot,
       obj_description(p.oid, 'pg_publication'), (SELECT array_agg(concat_ws(' ', r.prrelid::regclass,
           pg_get_expr(r.prqual, r.prrelid), r.prattrs) ORDER BY 1) FROM pg_publication_rel r
       WHERE r.prpubid = p.oid), (SELECT array_agg(s.pnnspid::regnamespace::text)
        FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)
  FROM pg_publication p WHERE p.pubname NOT LIKE 'pgsluice%' ORDER BY 1"""


@pytest.mark.both_versions
@pytest.mark.parametrize("wanted", [True, False])
def test_publications(
    database: Database,
    target_database: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    wanted: bool,
) -> None:
    """Made, changed, renamed and dropped where that is asked for; else the run says that it leaves them."""
    options = {"url": target_database.url, "publications": wanted}
    database.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in "abc"), "CREATE SCHEMA s")

    def once() -> None:
        run(database.url, PostgresSink(PostgresConfig.model_validate(options)), tmp_path)

    once()
    database.run(*CHANGES)
    once()
    found = target_database.rows(PUBLISHED)
    if wanted:
        assert [name for name, *_ in found] == ["P two", "nothing", "of_schema", "whole"]
        assert found == database.rows(PUBLISHED)
    else:
        assert found == []
        assert "publication of the source not made here" in capsys.readouterr().err
    assert target_database.rows("SELECT id FROM c") == [(1,)]
    changed = [change.definition for entry in read_log(database.url, 1000) for change in entry.changes]
    names = {of["name"] for of in changed if of["kind"] == "publication"}
    assert names == {"p", "gone", "whole", "nothing", "of_schema", "P two"}
