"""A Postgres database as a lake, against a server of Debian's package on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import QUICK, SUBJECTS, rows_of, subject_of
from typer.testing import CliRunner

import gentus
from gentus.app.cli.main import app
from gentus.lake import Skipped, Source, Unreadable, as_location, read, read_path, scan

pytest.importorskip("adbc_driver_postgresql", reason="needs gentus[postgres]")

PASSWORD = "hush-hush-word"


def programs() -> Path:
    """The folder of initdb and pg_ctl, which Debian does not put in the path."""
    known = [Path(found).parent for found in [shutil.which("initdb")] if found]
    known += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in known:
        if (folder / "initdb").exists():
            return folder
    pytest.skip("there is no Postgres server here (on Debian: apt install postgresql)")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server with nothing in it; what to connect to, without a password."""
    bin_folder = programs()
    folder = Path(tempfile.mkdtemp(prefix="gentus-pg-"))
    options: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    if os.getuid() == 0:  # it refuses to be run by root
        shutil.chown(folder, "postgres", "postgres")
        options |= {"user": "postgres", "group": "postgres"}
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(folder / "data")
    settings = (
        f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    )
    made = ["-D", data, "-U", "me", "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"]
    control = [str(bin_folder / "pg_ctl"), "-D", data]
    subprocess.run([str(bin_folder / "initdb"), *made], **options)
    try:
        subprocess.run([*control, "-w", "-l", str(folder / "log"), "-o", settings, "start"], **options)
        yield f"postgresql://me@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **{**options, "check": False})
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    run(server, "DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA IF EXISTS old CASCADE")
    return server


def run(url: str, statements: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"DO $all$ BEGIN {statements.rstrip(';')}; END $all$")  # one statement, however many
        cursor.execute("SELECT pg_stat_force_next_flush()")  # counters of changes are otherwise late
        cursor.fetchall()


def insert(table: str, rows: list[list[str]]) -> str:
    values = ", ".join("(" + ", ".join(f"'{cell}'" for cell in row) + ")" for row in rows)
    return f"INSERT INTO {table} VALUES {values};"


def make_tables(url: str, slices: int = 3) -> None:
    statements = ""
    for subject in SUBJECTS:
        for number in range(slices):
            table = f"{subject}_{number}"
            statements += f"CREATE TABLE {table} (name text, kind text, size numeric(9,1), year int);"
            statements += insert(table, rows_of(subject, number)[1:])
    run(url, statements)


def test_a_database_is_indexed_searched_followed_and_unioned(database: str, tmp_path: Path) -> None:
    make_tables(database)
    run(
        database,
        'CREATE SCHEMA old; CREATE VIEW old."Fish & co" AS'
        " SELECT * FROM fish_0 UNION ALL SELECT * FROM fish_1",
    )
    with gentus.build(database, tmp_path / "index", settings=QUICK, workers=1) as index:
        assert len(index) == 19
        hits = index.search(f"{database}/fish_2", k=3)
        assert {hit.table for hit in hits} == {"fish_0", "fish_1", "old.Fish & co"}
        assert all(hit.path == f"{database}/{hit.table}" for hit in hits)
        table = index.union(f"{database}/fish_2", ["fish_0", "old.Fish & co"]).to_arrow()
        assert table.num_rows == 12 + 12 + 24
        assert str(table.schema.field("year").type).startswith("int")
        run(
            database,
            "INSERT INTO birds_0 SELECT * FROM birds_1; DROP TABLE tools_0;"
            " CREATE TABLE more AS TABLE tools_1",
        )
        changes = index.sync()
        assert changes.added == ["more"]
        assert "birds_0" in changes.replaced
        assert set(changes.replaced) <= {
            "birds_0",
            "old.Fish & co",
        }  # of a view nobody knows: it is read again
        assert changes.removed == ["tools_0"]


def test_types_and_odd_names(database: str) -> None:
    run(
        database,
        'CREATE TABLE "a/b.c""d%" (day timestamp, yes boolean, raw bytea, many int[], doc jsonb, x float8);'
        """INSERT INTO "a/b.c""d%" VALUES ('2020-03-01', true, '\\xff', '{1,2}', '{"a": 1}', 2);"""
        "CREATE TABLE empty (a int)",
    )
    found = list(scan(database))
    odd = next(item for item in found if item.name != "empty")
    assert isinstance(odd, Source)
    told = {column.name: column.cells for column in read(odd).columns}
    assert told == {
        "day": ["2020-03-01"],
        "yes": ["true"],
        "raw": [],
        "many": ["{1,2}"],
        "doc": ['{"a": 1}'],
        "x": ["2"],
    }
    with pytest.raises(Unreadable, match="no rows"):
        read_path(f"{database}/empty")
    with pytest.raises(Unreadable, match="no such table"):
        read_path(f"{database}/missing")


def test_large_tables_are_sampled_everywhere_and_always_alike(database: str) -> None:
    run(
        database, "CREATE TABLE large AS SELECT i, md5(i::text) AS words FROM generate_series(1, 200000) AS i"
    )
    first, second = read_path(f"{database}/large"), read_path(f"{database}/large")
    assert first == second
    assert first.rows == 512
    numbers = [int(cell) for cell in first.columns[0].cells]
    assert min(numbers) < 40_000
    assert max(numbers) > 160_000


def test_what_may_not_be_read_is_named(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        database,
        "CREATE TABLE mine (a int); INSERT INTO mine VALUES (1); DROP ROLE IF EXISTS guest;"
        f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT USAGE ON SCHEMA public TO guest",
    )
    guest = database.replace("me@", "guest@")
    [refused] = scan(guest)
    assert isinstance(refused, Skipped)
    assert "GRANT SELECT" in refused.reason


def test_the_password_is_never_stored_and_never_shown(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tables(database, 1)
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(Unreadable, match="password"):
        list(scan(database))
    typed = database.replace("me@", f"me:{PASSWORD}@")
    monkeypatch.setenv("PGPASSWORD", "")  # so that it is forgotten after the test
    with gentus.build(typed, tmp_path / "index", settings=QUICK, workers=1) as index:
        assert index.config.lake == database
        assert len(index) == len(SUBJECTS)
        assert subject_of(index.search(f"{typed}/fish_0", k=1)[0].table) in SUBJECTS
    stored = b"".join(file.read_bytes() for file in (tmp_path / "index").rglob("*") if file.is_file())
    assert PASSWORD.encode() not in stored
    wrong = typed.replace(PASSWORD, "wrong-" + PASSWORD)
    done = CliRunner().invoke(app, ["index", wrong, "-o", str(tmp_path / "other")])
    assert done.exit_code != 0
    assert PASSWORD not in done.output + str(done.exception)
    assert "password authentication failed" in str(done.exception)


def test_nothing_is_ever_written(database: str) -> None:
    from gentus.lake.formats.postgres import connect

    with pytest.raises(Unreadable, match="read-only transaction"), connect(database) as cursor:
        cursor.execute("CREATE TABLE oops (a int)")


def test_settings_belong_in_the_environment() -> None:
    with pytest.raises(ValueError, match="PGSSLMODE"):
        as_location("postgresql://host/db?sslmode=disable&password=x")
