"""
The schema of the source as pg_dump writes it, at the point of the copy.

Pg_dump knows every kind of object and the order they need; its plain text has a heading before each of
them. One as new as the server is needed; without it ``catalog_schema`` reads the catalogs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from pgsluice.embedded.binaries import bundled_bin_dir
from pgsluice.errors import SchemaBusyError, SluiceError, SourceError, TableRewrittenError
from pgsluice.schema import quotes
from pgsluice.schema.statements import SchemaDump, SchemaStatement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pgsluice.postgres.session import Connection

# Quoted text first: what looks like a heading inside of a comment's or a function's text is none, and would
# let whoever wrote it run statements on the target.
_HEADING: Final = re.compile(
    r"""(?<![A-Za-z0-9_])[Ee]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"
    |(?<![A-Za-z0-9_$])(?P<quote>\$(?:[A-Za-z_\x80-\U0010ffff][\w]*)?\$).*?(?P=quote)
    |^--\n--\ Name:\ (?P<name>[^\n]*);\ Type:\ (?P<kind>[A-Z ]+);\ Schema:\ (?P<schema>[^\n]*?);
     \ Owner:\ [^\n]*\n--\n
    |^--[^\n]*\n""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
# The end of the dump, which has a command for psql.
_END: Final = re.compile(
    r"^--\n-- PostgreSQL database dump complete\n--\n\s*(\\unrestrict .*\s*)?\Z", re.MULTILINE
)
# Triggers and rules that would fire for rows that are replicated: what they do is in the stream already.
_FIRES: Final = re.compile(
    r""" ENABLE (?P<when>ALWAYS|REPLICA) (?=(?:TRIGGER|RULE) (?:"(?:[^"]|"")*"|[^\s;"]+);\s*\Z)"""
)
# What belongs to the source's own replication, or would act on the target by itself.
_LEFT_OUT: Final = ("EVENT TRIGGER", "PUBLICATION", "PUBLICATION TABLE", "SUBSCRIPTION")
_DEBIAN: Final = Path("/usr/lib/postgresql")
_SERVICE: Final = "pgsluice"
_NAMES_A_SERVICE: Final = ("service", "servicefile")

_GONE: Final = re.compile(r'relation ".*" does not exist|cache lookup failed|could not open relation')
_LOCKED: Final = re.compile("(lock|statement) timeout|deadlock detected")
_NAMED_NOT_NULL_FROM: Final = 180000
_LOCK_MILLISECONDS: Final = 500  # less than deadlock_timeout, so that others never have to give way


def dump_schema(
    conn: Connection,
    snapshot: str | None,
    *,
    without: Sequence[str],
    owners: bool,
    privileges: bool,
    quoted: bool = False,
) -> SchemaDump | None:
    """
    The schema of a database; None when no pg_dump is new enough.

    Args:
        conn: to the source; pg_dump connects as it did.
        snapshot: an exported snapshot; None for the schema of now.
        without: tables to leave out, as ``"schema"."name"``.
        owners: whether objects keep their owners, who must be roles of the target.
        privileges: whether grants are kept.
        quoted: whether every identifier stands in quotes.
    """
    program = find_pg_dump(conn.info.server_version // 10000)
    if program is None:
        return None
    flags = [
        "--schema-only",
        f"--lock-wait-timeout={_LOCK_MILLISECONDS}",
        *([f"--snapshot={snapshot}"] if snapshot else []),
        "--exclude-schema=pgsluice",
        "--no-publications",
        "--no-subscriptions",
        "--no-tablespaces",
        *(f"--exclude-table={name}" for name in without),
        *([] if owners else ["--no-owner"]),
        *([] if privileges else ["--no-privileges"]),
        *(["--quote-all-identifiers"] if quoted else []),
    ]
    rules = _odd_rules(conn)
    before, after = (
        tuple(statements(_with_quoted(rules, _run(program, conn, [*flags, f"--section={section}"]))))
        for section in ("pre-data", "post-data")
    )
    return SchemaDump(before, after)


@cache
def find_pg_dump(major: int) -> Path | None:
    """The oldest pg_dump of this machine that can read a server of that version."""
    places = [Path(found)] if (found := shutil.which("pg_dump")) else []
    places += sorted(_DEBIAN.glob("*/bin/pg_dump"))
    with suppress(SluiceError):  # the wheel with the embedded server is not installed
        places.append(bundled_bin_dir() / "pg_dump")
    usable = [(version, place) for place in places if (version := _major(place)) >= major]
    return min(usable)[1] if usable else None


def statements(text: str) -> Iterator[SchemaStatement]:
    """The objects in pg_dump's plain text."""
    text = _END.sub("", text)
    headings = [found for found in _HEADING.finditer(text) if found["kind"]]
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):  # there may be none: tables without keys
        body = text[heading.end() : end]
        if heading["kind"] in ("TRIGGER", "RULE"):
            body = _FIRES.sub(lambda found: " ENABLE " if found["when"] == "ALWAYS" else " DISABLE ", body)
        if heading["kind"] not in _LEFT_OUT and body.strip():
            schema = "" if heading["schema"] == "-" else heading["schema"]
            name = f"{schema}.{heading['name']}" if schema else heading["name"]
            yield SchemaStatement(heading["kind"], name, body.strip(), schema)


def _odd_rules(conn: Connection) -> dict[str, str]:
    """
    Names of NOT NULL that have to stand in quotes: pg_dump 18 forgets them for columns of parents.

    By the way it writes such a rule; longer names first, for one may begin with another.
    """
    if conn.info.server_version < _NAMED_NOT_NULL_FROM:
        return {}
    rows = conn.execute(
        "SELECT DISTINCT r.conname, pg_catalog.length(r.conname) FROM pg_catalog.pg_constraint r"
        " JOIN pg_catalog.pg_inherits i ON i.inhrelid = r.conrelid"
        " WHERE r.contype = 'n' AND pg_catalog.quote_ident(r.conname) <> r.conname ORDER BY 2 DESC"
    )
    return {_rule(name): _rule(quotes.quoted(name)) for name, _ in rows}


def _rule(name: str) -> str:
    return f"\n    CONSTRAINT {name} NOT NULL "


def _with_quoted(rules: Mapping[str, str], text: str) -> str:
    for written, right in rules.items():
        text = text.replace(written, right)
    return text


def _run(program: Path, conn: Connection, flags: Sequence[str]) -> str:
    """Run pg_dump, which connects as we did; nothing of that is on its command line, which all can read."""
    variables, others = _parameters(conn)
    with NamedTemporaryFile("w", prefix="pgsluice-", encoding="utf-8") as file:
        file.write("\n".join([f"[{_SERVICE}]", *others, ""]))
        file.flush()
        done = subprocess.run(
            [str(program), f"--dbname=service={_SERVICE}", *flags],
            env={**os.environ, **variables, "PGCLIENTENCODING": "UTF8", "PGSERVICEFILE": file.name},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        if _GONE.search(said):  # it lists objects, then asks for more: one was renamed or dropped in between
            raise TableRewrittenError(
                f"the schema of {conn.info.dbname} was changed while it was read: {said}"
            )
        if _LOCKED.search(said):
            raise SchemaBusyError(
                f"the schema of {conn.info.dbname} can't be read now: others hold locks on its tables"
            )
        raise SourceError(
            f"pg_dump could not read the schema of {conn.info.dbname}: {said}",
            remedy="Run it as a role that may read all tables, or make the target's tables by hand "
            "and set schema_copy: leave",
        )
    return done.stdout


def _parameters(conn: Connection) -> tuple[dict[str, str], list[str]]:
    """
    What the connection was opened with: environment variables, and lines for what has none.

    Variables that an older libpq does not know do no harm; in a file they would.
    """
    variables, lines = {}, []
    for option in conn.pgconn.info:
        keyword, value = option.keyword.decode(), (option.val or b"").decode()
        if not value or keyword in _NAMES_A_SERVICE:
            continue
        if option.envvar:
            variables[option.envvar.decode()] = value
        else:
            lines.append(f"{keyword}={value}")
    return variables, lines


def _major(program: Path) -> int:
    try:
        said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
        return int(said.split()[2].split(".")[0])  # pg_dump (PostgreSQL) 18.4
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0
