"""What changed on the source since init: publication, migrations, and a schema of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import (
    MissingRightError,
    NewerInstallationError,
    NotInitializedError,
    PublicationChangedError,
    PublicationMissingError,
    SourceError,
)
from pgsluice.schema.migrate import available
from pgsluice.source.connect import connect
from pgsluice.source.install import InitOptions, destroy, init, refresh
from pgsluice.source.preflight import check_source
from pgsluice.source.records import require_pipeline
from tests.source.catalog import catalog

if TYPE_CHECKING:
    from tests.fix_pg import Database


def test_changed_publications_are_found(shop: Database) -> None:
    """Every kind of change by somebody else is named; DROP TABLE and RENAME are not changes."""
    name = init(shop.url).publication
    shop.run("CREATE TABLE gone (id int PRIMARY KEY)")
    init(shop.url)
    shop.run("DROP TABLE gone", "ALTER TABLE customer RENAME TO client")
    with connect(shop.url) as conn:
        require_pipeline(conn, "main")
        for change, words in (
            (f"ALTER PUBLICATION {name} DROP TABLE client", "public.customer was taken off"),
            (f"ALTER PUBLICATION {name} ADD TABLE client WHERE (id > 5)", "row filter"),
            (
                f"ALTER PUBLICATION {name} DROP TABLE client; ALTER PUBLICATION {name} ADD TABLE client (id)",
                "column list",
            ),
            (
                f"ALTER PUBLICATION {name} SET (publish = 'insert')",
                "published operations changed from iudt to i",
            ),
            (
                f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)",
                "publish_via_partition_root",
            ),
        ):
            shop.run(change)
            with pytest.raises(PublicationChangedError, match=words):
                require_pipeline(conn, "main")
        assert init(shop.url).changed
        require_pipeline(conn, "main")
        shop.run(f"DROP PUBLICATION {name}")
        with pytest.raises(PublicationMissingError):
            require_pipeline(conn, "main")
        shop.run(f"CREATE PUBLICATION {name}")
        with pytest.raises(PublicationChangedError, match="created again"):
            require_pipeline(conn, "main")
    with pytest.raises(PublicationChangedError, match="created again"):
        init(shop.url)


def test_migrations_are_compared(shop: Database) -> None:
    """Not installed, older, newer and altered installations each have their error."""
    with connect(shop.url) as conn:
        with pytest.raises(NotInitializedError, match="not prepared"):
            require_pipeline(conn, "main")
        init(shop.url)
        with pytest.raises(NotInitializedError, match="no pipeline 'other'"):
            require_pipeline(conn, "other")
        conn.execute("UPDATE pgsluice.migration SET checksum = 'x'")
        with pytest.raises(SourceError, match="not the one of this pgsluice"):
            init(shop.url)
        conn.execute("DELETE FROM pgsluice.migration")
        with pytest.raises(NotInitializedError, match="older"):
            require_pipeline(conn, "main")
        with pytest.raises(NotInitializedError, match="--upgrade"):
            init(shop.url)
        again = init(shop.url, InitOptions(upgrade=True)).actions
        assert again == tuple(f"apply migration {each.version} ({each.name})" for each in available())
        conn.execute("INSERT INTO pgsluice.migration (version, name, checksum) VALUES (9999, 'new', '')")
        for action in (init, destroy):
            with pytest.raises(NewerInstallationError, match="newer pgsluice"):
                action(shop.url)


def test_somebody_elses_schema_is_left_alone(shop: Database) -> None:
    """A schema pgsluice with other things in it stops init; an empty one is used, and stays."""
    shop.run("CREATE SCHEMA pgsluice", "CREATE TABLE pgsluice.theirs (id int PRIMARY KEY)")
    before = catalog(shop)
    with pytest.raises(SourceError, match="not an installation"):
        init(shop.url)
    assert catalog(shop) == before
    assert destroy(shop.url) == []
    shop.run("DROP TABLE pgsluice.theirs")
    before = catalog(shop)
    init(shop.url)
    destroy(shop.url)
    assert catalog(shop) == before


def test_a_new_table_of_another_role(database: Database) -> None:
    """It is left out and named, and the pipeline goes on; its owner's or a superuser's start takes it in."""
    database.run(
        "DROP ROLE IF EXISTS keeper",
        "CREATE ROLE keeper LOGIN REPLICATION PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{database.name}" TO keeper',
        "CREATE TABLE own (id int PRIMARY KEY)",
        "ALTER TABLE own OWNER TO keeper",
    )
    url = database.url_as("keeper", "x")
    init(url)
    database.run("CREATE TABLE others (id int PRIMARY KEY)")
    refreshed = refresh(url)
    assert refreshed.foreign == ("public.others",)
    assert refreshed.joined == ()
    assert refresh(database.url).joined == ("public.others",)
    assert refresh(url).foreign == ()
    destroy(database.url)
    database.run("REASSIGN OWNED BY keeper TO postgres", "DROP OWNED BY keeper", "DROP ROLE keeper")


def test_nothing_is_removed_by_a_role_that_may_not_remove_all(database: Database) -> None:
    """A superuser has made the event triggers later: destroy by the first role says so first."""
    database.run(
        f"CREATE ROLE plain_{database.name} LOGIN REPLICATION PASSWORD 'x'",
        f'GRANT CREATE ON DATABASE "{database.name}" TO plain_{database.name}',
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"ALTER TABLE t OWNER TO plain_{database.name}",
    )
    url = database.url_as(f"plain_{database.name}", "x")
    try:
        init(url)
        init(database.url)
        before = catalog(database)
        with pytest.raises(MissingRightError, match="event triggers that init made belong to postgres"):
            destroy(url)
        assert catalog(database) == before
        assert destroy(database.url)
    finally:
        database.run(f"DROP OWNED BY plain_{database.name} CASCADE", f"DROP ROLE plain_{database.name}")


def test_tables_that_can_not_join_are_named(database: Database) -> None:
    """One without a key that is made later: by a refresh, and by check."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    init(database.url)
    database.run("CREATE TABLE later (a int)")
    assert [table for table, _ in refresh(database.url).left_out] == ["public.later"]
    found = [each.what for each in check_source(database.url) if each.code == "identity"]
    assert len(found) == 1
    assert found[0].startswith("public.later is left out")
