"""Whole journeys through the page, in a real browser."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import write_table
from playwright.sync_api import Locator, Page, Route, expect

from page.conftest import Window
from page.lake import COLUMNS, EVIL_NAME, IMAGE, RENAMED, SCRIPT, film_rows


def hits(page: Page) -> list[str]:
    """Tables in the order of the list."""
    return [str(item.get_attribute("data-hit")) for item in page.locator("[data-hit]").all()]


def open_hit(page: Page, table: str) -> None:
    page.locator(f'[data-hit="{table}"] button').click()
    expect(page.locator(".comparison h2")).to_have_text(table)


def selected(page: Page) -> list[str]:
    """Tables that are ticked for the union."""
    return [str(box.get_attribute("data-tick")) for box in page.locator(".hits input:checked").all()]


def select(page: Page, *tables: str) -> None:
    """Tick these tables and no others."""
    page.get_by_role("button", name="Clear").click()
    for table in tables:
        page.get_by_role("checkbox", name=f"Add {table} to the union").check()


def verdict(page: Page, table: str) -> Locator:
    return page.locator(f'[data-hit="{table}"]')


def pair(page: Page, column: str) -> str:
    """What goes under a column of the query, as the list of pairs has it."""
    row = page.locator(".pairs tbody tr").filter(has=page.get_by_role("rowheader", name=column, exact=True))
    return row.locator(".its").inner_text()


def twin(window: Window) -> Any:
    """What the page shows, as JSON."""
    link = window.page.get_by_role("link", name="This page as JSON")
    return window.page.request.get(window.address + str(link.get_attribute("href"))).json()


def twin_of_search(page: Page) -> Any:
    """The answer of the server to the search that the page shows."""
    upload = re.search(r"upload=([^&]+)", page.url)
    assert upload is not None
    wanted = {"query": {"upload": upload.group(1)}}
    return page.request.post(f"{page.url.partition('?')[0]}api/search", data=wanted).json()


def paste(page: Page, text: str, into: str = "body") -> None:
    """What Ctrl-V does; the clipboard of a spreadsheet has markup too."""
    page.locator(into).first.evaluate(
        """(element, text) => {
          const data = new DataTransfer();
          data.setData("text/plain", text);
          data.setData("text/html", "<td>not read<script>document.title = 'taken over'</script>");
          const event = { clipboardData: data, bubbles: true, cancelable: true };
          element.dispatchEvent(new ClipboardEvent("paste", event));
        }""",
        text,
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_file_without_a_header(window: Window, tmp_path: Path) -> None:
    page = window.drop(write_table(tmp_path / "bare.csv", film_rows(0, 20)[1:]))
    mine = page.get_by_role("region", name="Your table")
    expect(mine.locator(".doubt")).to_contain_text("Its first row looks like data")
    expect(mine).to_contain_text("20 rows, 5 columns")  # and no row of it is lost
    mine.get_by_role("button", name="It has no header").click()
    expect(mine).to_contain_text("20 rows, 5 columns")
    expect(mine.locator(".chips li").first).to_have_text("column_1")
    expect(mine.locator(".doubt")).to_have_count(0)
    select(page, "films/c.csv")
    page.get_by_role("link", name="Union").click()
    expect(page.locator("main")).to_contain_text("column_5")


# --- from a dropped file to the union ------------------------------------------------------------------


def test_from_a_dropped_file_to_a_download(window: Window, films: Path, tmp_path: Path) -> None:
    page = window.drop(films)
    found = hits(page)
    assert len(found) == 10
    assert sum(name.startswith("films/") for name in found[:8]) >= 7
    verdict_in_words = twin_of_search(page)["verdict"]
    expect(page.locator(".headline h2")).to_have_text(verdict_in_words)
    assert re.fullmatch(r"8 of 10 tables fit yours, \d of them fully\.", verdict_in_words)
    expect(page.locator("#live")).to_contain_text(f"{verdict_in_words} The best is films/")
    expect(page.get_by_role("region", name="Your table")).to_contain_text("10 rows, 5 columns")
    expect(page).to_have_url(re.compile(r"\?upload="))

    # The best one is compared already; another one has other names, and its columns are found all the same.
    expect(page.locator(".comparison h2")).to_have_text(found[0])
    open_hit(page, "films/c.csv")
    assert {name: pair(page, name) for name in COLUMNS} == RENAMED
    expect(page.locator(".curve.on")).to_have_count(5)
    weights = page.locator(".curve.on").evaluate_all(
        "all => all.map(one => one.getAttribute('stroke-width'))"
    )
    assert all(1 < float(weight) <= 4.5 for weight in weights)
    page.locator(".drawing .column", has_text="released").hover()
    expect(page.locator(".why")).to_contain_text("years")
    expect(page.locator(".curve.on-it")).to_have_count(1)

    # A pair is switched off; its curve stays as a trace.
    page.get_by_role("checkbox", name="Use kind for Genre").uncheck()
    expect(page.locator(".curve.on")).to_have_count(4)
    expect(page.locator(".curve.off")).to_have_count(1)

    # What the table lacks is named, and so is what it has beyond the query.
    open_hit(page, "films/b.parquet")
    expect(page.locator(".pairs tfoot")).to_contain_text("Budget")
    expect(page.locator(".column.none", has_text="Runtime")).to_have_count(1)
    expect(page.locator(".stacked .table tr")).to_have_count(2 + 5)

    select(page, "films/a.csv", "films/b.parquet", "films/c.csv")
    expect(page.locator(".basket")).to_contain_text("3 tables selected, 48 rows")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".union .facts")).to_contain_text("58 rows and 7 columns")
    off = page.locator(".matrix .link[aria-pressed=false]")
    expect(off).to_have_text(["kind"])
    page.locator(".matrix").get_by_role("button", name="Director").first.click()
    expect(off).to_have_count(2)
    expect(page.locator(".preview tbody tr").first).to_be_visible()

    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "my films-union.csv"
    download.value.save_as(tmp_path / "all.csv")
    rows = rows_of(tmp_path / "all.csv")
    assert list(rows[0]) == [*COLUMNS, "_source_table", "_source_row"]
    by_table: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_table.setdefault(row["_source_table"], []).append(row)
    assert {name: len(some) for name, some in by_table.items()} == {
        "my films.csv": 10,
        "films/a.csv": 14,
        "films/b.parquet": 16,
        "films/c.csv": 18,
    }
    _, *expected = film_rows(3, 18)
    for row, (title, year, director, _, runtime) in zip(by_table["films/c.csv"], expected, strict=True):
        assert [row[name] for name in COLUMNS] == [title, year, director, "", runtime]
    assert {row["Director"] for row in by_table["films/a.csv"]} == {""}
    assert "" not in {row["Director"] for row in by_table["films/b.parquet"]}


def test_a_union_as_parquet_with_all_columns(window: Window, films: Path, tmp_path: Path) -> None:
    page = window.drop(films)
    select(page, "films/b.parquet")
    page.get_by_role("link", name="Preview the union").click()
    page.get_by_label("Keep columns you do not have").check()
    page.get_by_label("Add the source of each row").uncheck()
    expect(page.locator(".union .facts")).to_contain_text("26 rows and 6 columns")
    expect(page.locator(".matrix .link.fixed")).to_have_text(["Budget"])
    page.get_by_label("Format").select_option("parquet")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    assert (table.num_rows, table.column_names) == (26, [*COLUMNS, "Budget"])
    assert str(table.schema.field("Year").type) == "int64"


def test_a_very_wide_file(window: Window, tmp_path: Path) -> None:
    """Its first columns are drawn, and all of them when they are wanted."""
    first, *rows = film_rows(0, 10)
    wide = [[*first, *(f"more {at}" for at in range(150))], *([*row, *["x"] * 150] for row in rows)]
    page = window.drop(write_table(tmp_path / "wide.csv", wide))
    page.get_by_role("checkbox", name="Add films/b.parquet to the union").check()
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".matrix tbody tr")).to_have_count(100)
    expect(page.get_by_label("Rows of the union").locator("th")).to_have_count(102)
    page.get_by_role("button", name=f"Show all {len(first) + 150} columns").click()
    expect(page.locator(".matrix tbody tr")).to_have_count(len(first) + 150)


def test_a_pair_made_by_hand(window: Window, films: Path, tmp_path: Path) -> None:
    page = window.drop(films)
    open_hit(page, "films/b.parquet")
    page.get_by_label("Column for Runtime").select_option("Budget")
    expect(page.locator(".curve.chosen")).to_have_count(1)
    expect(page.locator(".pairs tr.chosen")).to_contain_text("chosen by you")
    select(page, "films/b.parquet")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".matrix")).to_contain_text("Budget")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "all.csv")
    budgets = [row[2] for row in film_rows(2, 16, ["Genre", "Title", "Budget"])[1:]]
    rows = [row for row in rows_of(tmp_path / "all.csv") if row["_source_table"] == "films/b.parquet"]
    assert [float(row["Runtime"]) for row in rows] == [float(budget) for budget in budgets]
    page.get_by_role("link", name="Results").click()
    open_hit(page, "films/b.parquet")
    page.get_by_role("checkbox", name="Use Budget for Runtime").click()
    expect(page.locator(".curve.chosen")).to_have_count(0)
    expect(page.get_by_label("Column for Runtime")).to_be_focused()


def test_nothing_left_to_union(window: Window, films: Path) -> None:
    page = window.drop(films)
    select(page, "films/d.jsonl")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".union .facts")).to_contain_text("22 rows")
    for button in page.locator(".matrix .link").all():
        button.click()
    expect(page.get_by_role("alert")).to_contain_text("Switch on at least one")
    expect(page.get_by_role("button", name="Download")).to_be_disabled()
    page.locator(".matrix .link").first.click()
    expect(page.locator(".union .facts")).to_contain_text("22 rows")


def test_more_results_and_the_way_back(window: Window, films: Path) -> None:
    page = window.drop(films)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("[data-hit]")).to_have_count(20)
    expect(page).to_have_url(re.compile("k=20"))
    open_hit(page, "films/a.csv")
    page.reload()
    expect(page.locator(".comparison h2")).to_have_text("films/a.csv")
    expect(page.locator("[data-hit]")).to_have_count(20)
    page.go_back()
    expect(page.locator("[data-hit]")).to_have_count(20)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Which tables can be appended to yours?")


def test_another_file_may_be_dropped_or_pasted_anywhere(window: Window, films: Path) -> None:
    page = window.drop(films)
    page.locator(".work").drop(
        {"files": {"name": "fish.tsv", "mimeType": "", "buffer": b"a\tb\nsalmon\tlake\npike\tsea\n"}}
    )
    expect(page.locator(".query h1")).to_contain_text("fish.tsv")
    expect(page.locator("[data-hit] .name").first).to_contain_text("fish/")
    page.get_by_role("link", name="Map").click()
    page.locator("canvas").wait_for()
    paste(page, "name\tplace\nrobin\tforest\nowl\tcliff\n")
    expect(page.locator(".query h1")).to_contain_text("pasted.tsv")
    expect(page.locator("[data-hit] .name").first).to_contain_text("birds/")


# --- the start page ---------------------------------------------------------------------------------------


def test_the_start_page_shows_what_to_drop_and_what_to_try(window: Window) -> None:
    page = window.open()
    expect(page.locator(".dropzone label")).to_contain_text("Drop a table here, or choose a file")
    expect(page.locator(".kinds")).to_contain_text("CSV TSV Excel Parquet JSON Arrow")
    expect(page.locator(".dropzone label")).to_contain_text("up to 64 MB")
    tried = page.locator(".examples a")
    expect(tried).to_have_count(3)
    name = tried.first.locator(".name").inner_text()
    sample = page.request.get(f"{window.address}/api/table", params={"name": name}).json()
    names = [column["name"] for column in sample["columns"][:4]]
    expect(tried.first.locator(".cells span")).to_have_text(names + sample["sample"][0][:4])
    tried.first.click()
    expect(page.locator(".query h1")).to_contain_text(name)
    expect(page.locator("[data-hit]")).to_have_count(10)


def test_an_index_without_tables(window: Window) -> None:
    def emptied(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"tables": 0})

    window.page.route("**/api/index", emptied)
    page = window.open()
    expect(page.get_by_role("heading", level=1)).to_have_text("This index has no tables yet")
    expect(page.locator("main")).to_contain_text("gentus add films.index FILES")
    expect(page.locator(".dropzone, .chooser")).to_have_count(0)


def test_rows_of_a_spreadsheet_are_pasted(window: Window) -> None:
    page = window.open()
    page.locator(".dropzone").wait_for()
    cells = "\n".join("\t".join(row) for row in [*film_rows(1, 8), [IMAGE, "1990", SCRIPT, "drama", "90"]])
    paste(page, "one cell")
    expect(page.get_by_role("alert")).to_contain_text("You pasted one line.")
    paste(page, cells)
    expect(page.locator(".query h1")).to_contain_text("pasted.tsv")
    expect(page.locator(".query .chips li")).to_have_text(COLUMNS)
    expect(page.locator("section.query")).to_contain_text("9 rows, 5 columns")
    expect(page.locator(".stacked .query")).to_contain_text(film_rows(1, 8)[1][0])
    assert page.locator("main script, main img").count() == 0
    assert "taken over" not in page.title()


def test_the_button_pastes_where_there_is_no_keyboard(window: Window) -> None:
    text = "\n".join(",".join(row) for row in film_rows(1, 8))
    page = window.open()
    page.evaluate("text => { navigator.clipboard.readText = async () => text }", text)
    page.get_by_role("button", name="Paste").click()
    expect(page.locator(".query h1")).to_contain_text("pasted.csv")
    expect(page.locator(".query .chips li")).to_have_text(COLUMNS)

    # Where the browser does not let the page read the clipboard, there is a field to paste into.
    page.get_by_role("link", name="New search").click()
    page.evaluate("() => { navigator.clipboard.readText = () => Promise.reject(new Error('denied')) }")
    field = page.get_by_role("textbox", name="Rows of your table")
    expect(field).to_be_hidden()
    page.get_by_role("button", name="Paste").click()
    expect(field).to_be_focused()
    paste(page, "  ", "#rows")
    expect(page.get_by_role("alert")).to_contain_text("There is no text to paste.")
    paste(page, text, "#rows")
    expect(page.locator("[data-hit] .name").first).to_contain_text("films/")


def test_a_paste_that_is_too_large(window: Window) -> None:
    def small(route: Route) -> None:
        facts = route.fetch().json()
        facts["limits"]["upload_bytes"] = 100
        route.fulfill(json=facts)

    window.page.route("**/api/index", small)
    page = window.open()
    page.locator(".dropzone").wait_for()
    paste(page, "name\tplace\n" + 100 * "robin\tforest\n")
    said = "pasted.tsv has 1.3 KB; at most 100 bytes are accepted. Part of its rows is enough for a search."
    expect(page.get_by_role("alert")).to_contain_text(said)


# --- verdicts --------------------------------------------------------------------------------------------


def test_partial_fits_name_the_columns_they_lack(window: Window, films: Path) -> None:
    page = window.drop(films)
    full, partial = verdict(page, "films/a.csv"), verdict(page, "films/d.jsonl")
    expect(full).to_contain_text("Fit: full")
    expect(full).to_contain_text("5 of 5 columns")
    expect(full.locator(".dots i.on")).to_have_count(5)
    expect(partial).to_contain_text("Fit: partial")
    expect(partial).to_contain_text("4 of 5 columns")
    expect(partial.locator(".said")).to_have_text("All but Genre match")
    expect(partial.locator(".dots i")).to_have_class(["on", "on", "on", "", "on"])
    for text in page.locator(".hit .score").all_inner_texts():
        assert re.search(r"^score\s+([1-9]\d? %|> 99 %|< 1 %)$", text), text

    # The comparison and the union say the same.
    said = partial.locator(".score").inner_text().removeprefix("score").strip()
    open_hit(page, "films/d.jsonl")
    expect(page.locator(".verdict")).to_contain_text("Fit: partial")
    expect(page.locator(".verdict")).to_contain_text(f"Score {said}: how likely a person would append it")
    expect(page.locator(".verdict .said")).to_contain_text("Genre")
    expect(page.locator(".column.none", has_text="Genre")).to_have_count(1)
    select(page, "films/d.jsonl")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".matrix .judged")).to_have_text([f"Fit: partial{said}"])

    # Only tables that fit; the address has the choice.
    page.get_by_role("link", name="Results").click()
    shown = page.locator("[data-hit]").locator("visible=true")
    expect(shown).to_have_count(10)
    page.get_by_label("Only tables that fit").check()
    expect(shown).to_have_count(8)
    assert all(one.get_attribute("class") != "none" for one in shown.all())
    expect(page.locator("#live")).to_have_text("8 tables listed.")
    page.reload()
    expect(shown).to_have_count(8)
    assert selected(page) == ["films/d.jsonl"]


def test_copies_are_told_and_not_selected(window: Window, tmp_path: Path) -> None:
    page = window.drop(write_table(tmp_path / "again.csv", film_rows(1, 14)))
    expect(verdict(page, "films/a.csv")).to_contain_text("Same rows as your table")
    six, seven = sorted((hits(page).index(name), name) for name in ("films/more/6.csv", "films/more/7.csv"))
    expect(verdict(page, seven[1])).to_contain_text(f"Same rows as {six[1]}")
    fitting = [name for name in hits(page) if name.startswith("films/")]
    assert selected(page) == [name for name in fitting if name not in ("films/a.csv", seven[1])]
    expect(page.locator(".basket")).to_contain_text("6 tables selected")

    # They can be selected all the same, and the union says what that means.
    open_hit(page, "films/a.csv")
    expect(page.locator(".verdict")).to_contain_text("Same rows as your table")
    page.locator(".comparison").get_by_label("Add to the union").check()
    expect(page.locator(".basket")).to_contain_text("7 tables selected")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".notes li")).to_contain_text(["films/a.csv: same rows as your table."])

    # So can tables that are only near; one without a matching column is left out.
    page.get_by_role("link", name="Results").click()
    near = next(name for name in hits(page) if not name.startswith("films/"))
    page.get_by_role("checkbox", name=f"Add {near} to the union").check()
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".notes")).to_contain_text(f"{near} is left out: no column matches.")
    expect(page.locator(".union h1")).to_have_text("Union of again.csv and 7 tables")
    window.forgive("422")

    # What was cleared stays so.
    page.get_by_role("link", name="Results").click()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".basket")).to_be_hidden()
    page.reload()
    page.locator("[data-hit]").first.wait_for()
    assert selected(page) == []


def test_of_two_tables_the_one_with_more_rows_is_selected(window: Window, films: Path) -> None:
    def larger(route: Route) -> None:
        answer = route.fetch().json()
        for hit in answer["results"]:
            hit.get("same_rows", {})["kind"] = "contains"
        route.fulfill(json=answer)

    window.page.route("**/api/search", larger)
    page = window.drop(films)
    first, second = sorted(("films/more/6.csv", "films/more/7.csv"), key=hits(page).index)
    assert second in selected(page)
    assert first not in selected(page)
    expect(page.locator(".basket")).to_contain_text("7 tables selected")


def test_nothing_fits(window: Window, tmp_path: Path) -> None:
    genes = [[f"BRCA{number}", f"chr{number % 22 + 1}", str(1234 * number + 77)] for number in range(1, 15)]
    page = window.drop(write_table(tmp_path / "genes.csv", [["gene", "chromosome", "length bp"], *genes]))
    expect(page.locator(".headline h2")).to_have_text("No table in this lake fits yours.")
    expect(page.locator("#live")).to_contain_text("No table in this lake fits yours. The nearest is ")
    expect(page.locator(".results")).to_contain_text("The nearest, none of which fits:")
    assert page.locator(".hit .fit").all_inner_texts() == 10 * ["Fit: none"]
    assert selected(page) == []
    expect(page.locator(".basket")).to_be_hidden()
    expect(page.get_by_label("Only tables that fit")).to_have_count(0)
    expect(page.locator(".comparison .fit")).to_have_text("Fit: none")
    expect(page.get_by_role("alert")).to_have_count(0)

    # One can be selected all the same; there is nothing to append.
    first = hits(page)[0]
    page.locator(".comparison").get_by_label("Add to the union").check()
    assert selected(page) == [first]
    expect(page.locator(".basket")).to_contain_text("1 table selected")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "No column of the selected tables matches one of yours."
    )
    window.forgive("422")


# --- tables of the lake ----------------------------------------------------------------------------------


def test_a_table_of_the_lake_as_query(window: Window) -> None:
    page = window.open()
    field = page.get_by_role("combobox")
    field.fill("films/c.csv")
    expect(page.get_by_role("option")).to_have_count(1)
    field.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == page.get_by_role("option").get_attribute("id")
    field.press("Enter")
    page.locator("[data-hit]").first.wait_for()
    expect(page).to_have_url(re.compile(r"\?table=films%2Fc\.csv"))
    found = hits(page)
    assert "films/c.csv" not in found
    assert found[0].startswith("films/")
    expect(page).to_have_title("films/c.csv · GenTUS")
    assert [hit["table"] for hit in twin(window)["results"]] == found


def test_any_table(window: Window) -> None:
    page = window.open()
    page.get_by_role("button", name="Random table").click()
    expect(page.locator("[data-hit]")).to_have_count(10)


def test_the_list_of_tables(window: Window) -> None:
    page = window.open("/tables")
    expect(page.locator("main")).to_contain_text("28 tables")
    page.get_by_role("searchbox").fill("more")
    expect(page.locator(".listing tbody tr")).to_have_count(3)
    expect(page).to_have_url(re.compile("filter=more"))
    assert [table["name"] for table in twin(window)["tables"]] == [
        f"films/more/{number}.csv" for number in (5, 6, 7)
    ]
    page.get_by_role("link", name="films/more/5.csv", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("films/more/5.csv")
    expect(page.locator(".profile tbody tr")).to_have_count(5)
    expect(page.locator(".grid tbody tr")).to_have_count(12)
    page.get_by_role("link", name="Search with it").click()
    expect(page.locator("[data-hit]")).to_have_count(10)


def test_markup_in_cells_and_names_is_text(window: Window, films: Path) -> None:
    page = window.drop(films)
    open_hit(page, EVIL_NAME)
    expect(page.locator(".stacked")).to_contain_text(SCRIPT)
    expect(page.locator(".stacked")).to_contain_text(IMAGE)
    select(page)
    page.locator(".comparison").get_by_label("Add to the union").check()
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".preview")).to_contain_text(SCRIPT)
    page.goto(f"{window.address}/tree")
    page.locator("button.branch").first.wait_for()
    for button in page.locator("button.branch").all():
        button.click()
    expect(page.locator(".tree")).to_contain_text(EVIL_NAME)
    for path in ("/tables?filter=bold", f"/table?name={EVIL_NAME}", "/map"):
        page.goto(window.address + path)
        expect(page.locator("main h1")).to_be_attached()
    assert page.locator("main script, main img, main b").count() == 0
    assert "taken over" not in page.title()


# --- map and tree --------------------------------------------------------------------------------------


def ink(page: Page) -> int:
    """How many pixels of the map are painted."""
    return int(
        page.locator("canvas").evaluate(
            """canvas => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let painted = 0;
              for (let at = 3; at < data.length; at += 4) painted += data[at] > 0;
              return painted;
            }"""
        )
    )


def test_the_map(window: Window) -> None:
    page = window.open("/map")
    page.locator("canvas").wait_for()
    page.wait_for_timeout(100)
    before = ink(page)
    assert before > 28 * 20
    page.get_by_role("searchbox").fill("films/c")
    page.get_by_role("button", name="films/c.csv").click()  # brings it to the middle
    tip = page.locator(".tip")
    expect(tip).to_contain_text("films/c.csv")
    expect(tip).to_contain_text("released")
    box = page.locator("canvas").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] - 200, middle[1] - 100)
    page.mouse.move(*middle)
    expect(tip).to_contain_text("films/c.csv")
    page.mouse.wheel(0, -400)  # larger, and what is under the pointer stays
    page.wait_for_timeout(100)
    page.mouse.move(middle[0] + 1, middle[1])
    expect(tip).to_contain_text("films/c.csv")
    page.mouse.click(*middle)
    expect(page).to_have_url(re.compile(r"table=films%2Fc\.csv"))
    page.locator("[data-hit]").first.wait_for()
    page.get_by_role("link", name="Map").click()
    expect(page.get_by_text("10 tables of your last search")).to_be_visible()
    page.locator("canvas").hover(position={"x": 5, "y": 5})
    page.wait_for_timeout(100)
    everything = ink(page)
    page.get_by_role("button", name="Zoom in").click(click_count=2)
    page.wait_for_timeout(100)
    assert ink(page) != everything
    page.get_by_role("button", name="Show all").click()
    page.wait_for_timeout(100)
    assert abs(ink(page) - everything) < 0.02 * everything


def test_the_map_by_keyboard(window: Window) -> None:
    page = window.open("/map")
    page.locator("canvas").wait_for()
    page.locator("canvas").focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
        if page.locator(".tip").is_visible():
            break
        page.keyboard.press("-")
    expect(page.locator("#live")).to_have_text(re.compile(r"films|fish|metals|birds|tools"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("table="))


def lit(page: Page) -> int:
    """How many pixels of the map are not faint."""
    return int(
        page.locator("canvas").evaluate(
            """canvas => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let strong = 0;
              for (let at = 3; at < data.length; at += 4) strong += data[at] > 128;
              return strong;
            }"""
        )
    )


def test_the_legend_has_names_of_families(window: Window) -> None:
    page = window.open("/map")
    entries = page.locator(".legend button")
    expect(entries).to_have_count(5)
    expect(entries.first).to_contain_text("Director, Title, Year, Runtime")
    expect(entries.first).to_contain_text("8 tables")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    everything = lit(page)
    entries.first.click()
    expect(entries.first).to_have_attribute("aria-pressed", "true")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    assert 0 < lit(page) < 0.6 * everything
    entries.first.click()
    expect(entries.first).to_have_attribute("aria-pressed", "false")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    assert lit(page) == everything
    page.get_by_role("searchbox").fill("films/c")
    page.get_by_role("button", name="films/c.csv").click()
    expect(page.locator(".tip")).to_contain_text("Director, Title, Year, Runtime")


def test_families(window: Window) -> None:
    page = window.open("/groups")
    expect(page.locator("main")).to_contain_text("5 families with 28 tables")
    names = page.locator(".families-list .family")
    expect(names).to_have_count(5)
    assert [group["name"] for group in twin(window)["groups"]] == names.all_inner_texts()
    page.get_by_role("searchbox").fill("director")
    expect(names).to_have_count(1)
    names.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Director, Title, Year, Runtime")
    expect(page.locator(".listing tbody tr")).to_have_count(8)
    assert len(twin(window)["tables"]) == 8

    # From one of its tables to a search, to the union in its columns, and to the map.
    page.get_by_role("link", name="Search with films/a.csv").click()
    expect(page.locator(".headline")).to_contain_text("fit yours")
    page.go_back()
    page.get_by_role("link", name="Union with the columns of films/c.csv").click()
    expect(page.locator(".union h1")).to_have_text("Union of films/c.csv and 7 tables")
    expect(page.locator(".matrix tbody th").first).to_contain_text("film")
    page.go_back()
    page.get_by_role("link", name="Show on the map").click()
    expect(page.locator(".legend button[aria-pressed=true]")).to_contain_text("Director, Title")

    # Lists, one table and the tree name the family too.
    page.goto(f"{window.address}/tables?filter=fish")
    expect(page.locator(".listing .family").first).to_contain_text("name, place, size (like fish/")
    page.goto(f"{window.address}/table?name=films/a.csv")
    page.locator(".facts .family").click()
    expect(page.locator(".listing tbody tr")).to_have_count(8)
    page.goto(f"{window.address}/tree")
    expect(page.locator(".branch .of").first).to_contain_text(re.compile("Director|name, place"))


def test_families_that_are_being_made(window: Window) -> None:
    asked: list[str] = []

    def not_yet(route: Route) -> None:
        asked.append(route.request.url)
        answer = route.fetch().json()
        if len(asked) < 3:
            answer |= {"state": "computing", "groups": [], "group": None, "tables": []}
        route.fulfill(json=answer)

    window.page.route(re.compile("/api/groups?[?]"), not_yet)
    page = window.open("/groups")
    expect(page.locator("main")).to_contain_text("Families are being made ...")
    expect(page.locator(".families-list li")).to_have_count(5)
    asked.clear()
    page.goto(f"{window.address}/map")
    expect(page.locator("aside")).to_contain_text("Families are being made ...")
    expect(page.locator(".legend button")).to_have_count(5)
    asked.clear()
    page.goto(f"{window.address}/group?table=films/a.csv")
    expect(page.locator("main")).to_contain_text("Families are being made ...")
    expect(page.locator(".listing tbody tr")).to_have_count(8)


def test_the_tree(window: Window) -> None:
    page = window.open("/tree")
    expect(page.locator("main")).to_contain_text("28 tables")
    counts = [int(text.split()[0]) for text in page.locator(".branch .many").all_inner_texts()]
    assert sum(counts) == 28
    assert counts == sorted(counts, reverse=True)
    first = page.locator("button.branch").first
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(first).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".inner").first.locator(".leaf, .branch").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(first).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowDown")
    expect(page.locator("button.branch").nth(1)).to_be_focused()
    page.get_by_role("link", name="Go to code").first.click()
    expect(page.locator(".trail")).to_be_visible()
    page.locator(".leaf").first.get_by_role("link", name="Search with").click()
    page.locator("[data-hit]").first.wait_for()


# --- what goes wrong -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("empty.csv", b"", "is empty"), ("broken.parquet", b"PAR1 nothing", "cannot be read")],
)
def test_files_that_are_no_tables(window: Window, name: str, content: bytes, said: str) -> None:
    page = window.open()
    page.locator(".dropzone").drop({"files": {"name": name, "mimeType": "", "buffer": content}})
    expect(page.get_by_role("alert")).to_contain_text(said)
    if content:
        window.forgive("422")
    page.get_by_role("link", name="Search with another table").click()
    expect(page.locator(".dropzone")).to_be_visible()


def test_files_that_are_too_large(window: Window, films: Path) -> None:
    def small(route: Route) -> None:
        facts = route.fetch().json()
        facts["limits"]["upload_bytes"] = 100
        route.fulfill(json=facts)

    window.page.route("**/api/index", small)
    page = window.open()
    page.locator("input[type=file]").set_input_files(films)
    expect(page.get_by_role("alert")).to_contain_text("at most 100 bytes are accepted")


def test_what_is_not_there(window: Window) -> None:
    page = window.open("/?upload=nosuchupload")
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto(f"{window.address}/?table=nosuch.csv")
    expect(page.get_by_role("alert")).to_contain_text("nosuch.csv")
    page.goto(f"{window.address}/table?name=nosuch.csv")
    expect(page.get_by_role("alert")).to_contain_text("nosuch.csv")
    page.goto(f"{window.address}/tree?prefix=99999")
    expect(page.locator("main")).to_contain_text("0 tables")
    window.forgive("404")


def test_an_upload_that_the_server_let_go(window: Window, films: Path) -> None:
    page = window.drop(films)
    gone = page.url.partition("upload=")[2]
    said = {"error": "this upload is not there (any more); send the file again"}

    def forgotten(route: Route) -> None:
        if gone in (route.request.post_data or ""):
            route.fulfill(status=404, json=said)
        else:
            route.continue_()

    page.route("**/api/union/*", forgotten)
    select(page, "films/a.csv")
    page.get_by_role("link", name="Preview the union").click()
    expect(page.locator(".union .facts")).to_contain_text("24 rows")
    window.forgive("404")


def test_a_server_that_is_gone(window: Window, films: Path) -> None:
    page = window.drop(films)
    page.route("**/api/**", lambda route: route.abort())
    page.locator(".work").drop({"files": str(films)})
    expect(page.get_by_role("alert")).to_contain_text("Is gentus serve still running?")
    window.forgive("ERR_FAILED")
