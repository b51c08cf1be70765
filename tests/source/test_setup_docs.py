"""The SQL of docs/postgres-setup.md, run as it stands: a role that is no superuser can do everything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.source.install import InitOptions, destroy, init
from pgsluice.source.preflight import check_source
from tests.source.catalog import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fix_pg import Database

PAGE = Path(__file__).parents[2] / "docs" / "postgres-setup.md"


@pytest.fixture
def shop(database: Database) -> Iterator[Database]:
    """A database whose tables belong to a role ``app``."""
    app = f"app_{database.name}"
    database.run(f"CREATE ROLE {app}", f"GRANT CREATE, USAGE ON SCHEMA public TO {app}")
    with database.connect() as conn:
        conn.execute(f"SET ROLE {app}")
        conn.execute("CREATE TABLE customer (id int PRIMARY KEY, name text)")
    yield database
    for role in (_role(database), app):
        database.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def run_block(database: Database, name: str) -> None:
    """Run one marked block of the page, with the names of this test."""
    found = re.search(
        rf"<!-- test: {name} -->\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    text = re.sub(r"\bapp\b", f"app_{database.name}", found[1])
    text = re.sub(r"\bDATABASE shop\b", f"DATABASE {database.name}", text)
    text = re.sub(r"\b(ROLE|TO) pgsluice\b", rf"\1 {_role(database)}", text)
    database.run(text)


@pytest.mark.both_versions
def test_the_role_may_act_as_the_owner(shop: Database) -> None:
    """Role and membership: check has no errors, init and destroy work, and writes go on."""
    run_block(shop, "role")
    run_block(shop, "owner")
    url = shop.url_as(_role(shop), "change-me")
    before = catalog(shop)
    assert [f for f in check_source(url) if f.severity == "error"] == []
    assert init(url).tables == ("public.customer",)
    assert not init(url).changed
    shop.run("UPDATE customer SET name = 'x'")
    destroy(url)
    assert catalog(shop) == before


@pytest.mark.both_versions
def test_an_administrator_makes_the_publication(shop: Database) -> None:
    """Without ownership the given publication is used, and stays."""
    run_block(shop, "role")
    run_block(shop, "publication")
    url = shop.url_as(_role(shop), "change-me")
    before = catalog(shop)
    assert init(url, InitOptions(publication="pgsluice_shop")).tables == ("public.customer",)
    destroy(url)
    assert catalog(shop) == before
    with psycopg.connect(url) as conn:  # new tables can be read too
        shop.run(f"SET ROLE app_{shop.name}; CREATE TABLE later (id int PRIMARY KEY)")
        assert conn.execute("SELECT count(*) FROM later").fetchone() == (0,)


def _role(database: Database) -> str:
    return f"pgsluice_{database.name}"
