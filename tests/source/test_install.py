"""Init and destroy on real servers: what they make, what they leave alone, and being killed half-way."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import (
    ConfigError,
    RunActiveError,
    SlotUnusableError,
    UnsafePublicationError,
    UnsupportedServerError,
)
from pgsluice.schema.migrate import available
from pgsluice.source import install
from pgsluice.source.connect import connect
from pgsluice.source.install import InitOptions, Refreshed, destroy, init, refresh
from pgsluice.source.names import default_name, require_slot_name
from pgsluice.source.records import require_pipeline
from pgsluice.source.selection import Selection
from pgsluice.source.slot import create_slot, drop_slot, read_slot
from tests.source.catalog import FULL, WRITES, catalog

if TYPE_CHECKING:
    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database


def published(database: Database, name: str) -> list[str]:
    """The tables whose rows a publication sends."""
    query = "SELECT pubname, schemaname || '.' || tablename FROM pg_publication_tables ORDER BY 2"
    return [table for publication, table in database.rows(query) if publication == name]


@pytest.mark.both_versions
def test_init_twice_and_destroy(shop: Database) -> None:
    """Init publishes what is safe, the second time changes nothing, destroy leaves no trace."""
    before = catalog(shop)
    report = init(shop.url)
    name = default_name("main", shop.name)
    assert (report.slot, report.publication) == (name, name)
    assert report.tables == ("crm.Lead", "public.customer", "public.sale_1")
    assert dict(report.left_out) == {"public.audit": "no primary key", "public.event_1": "no primary key"}
    shop.run(*WRITES)
    made = catalog(shop)
    again = init(shop.url)
    assert not again.changed
    assert again.tables == report.tables
    assert catalog(shop) == made
    with connect(shop.url) as conn:
        record = require_pipeline(conn, "main")
        state = read_slot(conn, name)
    assert record.slot_made
    assert record.publication_made
    assert (state.plugin, state.database, state.lost, state.active_pid) == (
        "pgoutput",
        shop.name,
        False,
        None,
    )
    assert state.confirmed_flush_lsn is not None
    assert destroy(shop.url)
    assert catalog(shop) == before
    assert destroy(shop.url) == []


def test_dry_runs_change_nothing(shop: Database) -> None:
    """Both dry runs say what the real ones then do."""
    before = catalog(shop)
    would = init(shop.url, InitOptions(selection=FULL), dry_run=True)
    assert catalog(shop) == before
    assert init(shop.url, InitOptions(selection=FULL)).actions == would.actions
    made = catalog(shop)
    would_remove = destroy(shop.url, dry_run=True)
    assert catalog(shop) == made
    assert destroy(shop.url) == would_remove


@pytest.mark.both_versions
def test_keyless_full_is_undone(shop: Database) -> None:
    """FULL lets keyless tables in without making their writes fail, and is taken back."""
    shop.run("CREATE TABLE quiet (id int)", "ALTER TABLE quiet REPLICA IDENTITY NOTHING")
    before = catalog(shop)
    report = init(shop.url, InitOptions(selection=FULL))
    assert {"public.audit", "public.event_1", "public.quiet"} <= set(report.tables)
    shop.run(*WRITES)
    assert not init(shop.url, InitOptions(selection=FULL)).changed
    destroy(shop.url)
    assert catalog(shop) == before


def test_full_stays_while_another_publication_needs_it(shop: Database) -> None:
    """The first pipeline to go leaves FULL to the other one, which undoes it."""
    before = catalog(shop)
    init(shop.url, InitOptions(name="a", selection=FULL))
    init(shop.url, InitOptions(name="b", selection=FULL))
    assert any("leave REPLICA IDENTITY FULL on public.audit" in words for words in destroy(shop.url, "a"))
    shop.run(*WRITES)
    destroy(shop.url, "b")
    assert catalog(shop) == before


def test_the_list_is_kept_up_to_date(shop: Database) -> None:
    """New tables and partitions come in; tables that lost their key go out, if no trigger has seen to it."""
    name = init(shop.url).publication
    shop.run("ALTER EVENT TRIGGER pgsluice_identity DISABLE")
    shop.run(
        "CREATE TABLE parcel (id int PRIMARY KEY)",
        "CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
    )
    assert "public.sale_2" in published(shop, name)  # at once: the partitioned table itself is on the list
    assert refresh(shop.url).actions == (f"add public.parcel to publication {name}",)
    again = refresh(shop.url)
    assert again == Refreshed(left_out=again.left_out)
    shop.run("ALTER TABLE customer DROP CONSTRAINT customer_pkey", "DROP TABLE parcel")
    assert refresh(shop.url).actions == (f"take public.customer off publication {name}",)
    shop.run("UPDATE customer SET name = 'x'")
    with connect(shop.url) as conn:
        require_pipeline(conn, "main")


def test_patterns_choose_tables(shop: Database) -> None:
    """Include and exclude patterns, a partition by its root's name, and a pattern that matches nothing."""
    selection = Selection(include=("public.*", 'crm."Lead"', "nosuch"), exclude=("customer",))
    report = init(shop.url, InitOptions(selection=selection))
    assert report.tables == ("crm.Lead", "public.sale_1")
    assert any("nosuch" in warning for warning in report.warnings)
    narrower = init(shop.url, InitOptions(selection=Selection(include=("sale",))))
    assert narrower.tables == ("public.sale_1",)
    assert init(shop.url).tables == ("public.sale_1",)
    excluded = init(
        shop.url, InitOptions(selection=Selection(include=("sale", "customer"), exclude=("sale_1",)))
    )
    assert excluded.tables == ("public.customer",)


def test_an_empty_database_can_be_prepared(database: Database) -> None:
    """A publication without tables is made, and filled later."""
    assert init(database.url).tables == ()
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    assert init(database.url).tables == ("public.t",)


@pytest.mark.both_versions
@pytest.mark.parametrize("scope", ["all", "schemas"])
def test_unsafe_publications_are_refused(shop: Database, scope: str) -> None:
    """FOR ALL TABLES and whole schemas are refused, and such a publication really makes UPDATE fail."""
    selection = Selection(scope=scope, schemas=("public",) if scope == "schemas" else ())
    before = catalog(shop)
    with pytest.raises(UnsafePublicationError, match=r"public\.audit") as caught:
        init(shop.url, InitOptions(selection=selection))
    assert caught.value.fields["tables"] == ["public.audit", "public.event_1"]
    assert catalog(shop) == before
    clause = "ALL TABLES" if scope == "all" else "TABLES IN SCHEMA public"
    shop.run(f"CREATE PUBLICATION unsafe FOR {clause}")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        shop.run(WRITES[0])
    shop.run("DROP PUBLICATION unsafe")
    full = Selection(scope=selection.scope, schemas=selection.schemas, keyless="full")
    report = init(shop.url, InitOptions(selection=full))
    assert "public.audit" in report.tables
    shop.run(*WRITES)
    assert not init(shop.url, InitOptions(selection=full)).changed
    with pytest.raises(ConfigError, match="another kind"):
        init(shop.url, InitOptions(selection=Selection()))
    destroy(shop.url)
    assert catalog(shop) == before


def test_what_exists_is_used_and_stays(shop: Database) -> None:
    """A publication and a slot that were there before are neither altered nor dropped."""
    shop.run(
        "CREATE PUBLICATION mine FOR TABLE customer",
        f"SELECT pg_create_logical_replication_slot('{shop.name}_mine', 'pgoutput')",
    )
    before = catalog(shop)
    options = InitOptions(publication="mine", slot=f"{shop.name}_mine")
    assert init(shop.url, options).tables == ("public.customer",)
    assert not init(shop.url, options).changed
    with pytest.raises(ConfigError, match="already has the slot"):
        init(shop.url, InitOptions(slot="other"))
    with pytest.raises(ConfigError, match="one reader"):
        init(shop.url, InitOptions(name="second", slot=f"{shop.name}_mine"))
    destroy(shop.url)
    assert catalog(shop) == before


@pytest.mark.parametrize("pg", ["pg15"], indirect=True)  # the wheel of 18 has no other plugin
def test_unusable_slots_are_refused(shop: Database) -> None:
    """Another plugin, a physical slot, and another database's slot, before anything is made."""
    other = f"{shop.name}_x"
    before = catalog(shop)
    with connect(shop.url) as conn, connect(shop.server.url) as elsewhere:
        for make, words in (
            (f"SELECT pg_create_logical_replication_slot('{other}', 'test_decoding')", "test_decoding"),
            (f"SELECT pg_create_physical_replication_slot('{other}')", "physical"),
            (
                f"SELECT pg_create_logical_replication_slot('{other}', 'pgoutput')",
                "belongs to database postgres",
            ),
            (f"SELECT pg_create_logical_replication_slot('{other}', 'pgoutput', true)", "temporary"),
        ):
            (elsewhere if "belongs" in words else conn).execute(make)
            with pytest.raises(SlotUnusableError, match=words):
                init(shop.url, InitOptions(slot=other))
            drop_slot(elsewhere if "belongs" in words else conn, other)
    assert catalog(shop) == before


@pytest.mark.parametrize("killed_at", ["create_publication", "_prove_safe", "create_slot"])
def test_init_finishes_after_being_killed(
    shop: Database, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """Killed at any point, init run again ends as if nothing had happened, and destroy removes all."""
    before = catalog(shop)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(install, killed_at, die)
        with pytest.raises(KeyboardInterrupt):
            init(shop.url, InitOptions(selection=FULL))
    shop.run(*WRITES)
    report = init(shop.url, InitOptions(selection=FULL))
    assert f"make slot {report.slot}" in report.actions
    assert destroy(shop.url)
    assert catalog(shop) == before
    with monkeypatch.context() as patched:
        patched.setattr(install, killed_at, die)
        with pytest.raises(KeyboardInterrupt):
            init(shop.url, InitOptions(selection=FULL))
    destroy(shop.url)
    assert catalog(shop) == before


def test_destroy_finishes_after_being_killed(shop: Database) -> None:
    """A slot or publication that is already gone is no obstacle, and one made by another is left alone."""
    before = catalog(shop)
    report = init(shop.url)
    with connect(shop.url) as conn:
        drop_slot(conn, report.slot)
    shop.run(f"DROP PUBLICATION {report.publication}")
    assert destroy(shop.url) == ["forget pipeline main", "drop schema pgsluice"]
    assert catalog(shop) == before
    report = init(shop.url)
    shop.run(f"DROP PUBLICATION {report.publication}", f"CREATE PUBLICATION {report.publication}")
    assert not any("publication" in words for words in destroy(shop.url))
    assert shop.rows("SELECT pubname FROM pg_publication") == [(report.publication,)]


def test_destroy_refuses_while_the_slot_is_read(shop: Database) -> None:
    """With a walsender on the slot nothing is removed."""
    report = init(shop.url)
    made = catalog(shop)
    with connect(shop.url, replication=True) as reader:
        reader.pgconn.exec_(
            f"START_REPLICATION SLOT {report.slot} LOGICAL 0/0"
            f" (proto_version '1', publication_names '{report.publication}')".encode()
        )
        with pytest.raises(RunActiveError, match="in use by process"):
            destroy(shop.url)
        assert catalog(shop) == made
        reader.close()


def test_inits_at_the_same_time(shop: Database) -> None:
    """Several at once end in one installation; one waits for another, and none fails."""
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: init(shop.url), range(4)))
    done = Counter(action.split()[1] for report in reports for action in report.actions)
    assert done == {"migration": len(available()), "event": 1, "publication": 1, "slot": 1}
    assert not init(shop.url).changed


def test_failover_slots(shop: Database) -> None:
    """On 18 the slot gets the mark."""
    report = init(shop.url, InitOptions(failover=True))
    with connect(shop.url) as conn:
        assert read_slot(conn, report.slot).failover
    assert any(finding.code == "failover" for finding in report.findings)


def test_failover_slots_need_17(pg15: EmbeddedPostgres) -> None:
    """On 15 it is refused before anything is made."""
    with connect(pg15.url) as conn, pytest.raises(UnsupportedServerError, match="17 or newer"):
        create_slot(conn, "x", failover=True)
    with pytest.raises(UnsupportedServerError, match="17 or newer"):
        init(pg15.url, InitOptions(failover=True))


def test_names() -> None:
    """Default names are valid slot names, and different databases never share one."""
    assert default_name("main", "shop") == "pgsluice_shop"
    assert default_name("eu", "shop") == "pgsluice_eu_shop"
    names = {
        default_name("main", database)
        for database in ("My-DB", "my_db", "my-db", "x" * 63, "x" * 62 + "y", "ü")
    }
    assert len(names) == 6
    assert {require_slot_name(name) for name in names} == names
    with pytest.raises(ConfigError, match="can't be the name of a slot"):
        require_slot_name("Shop")
