"""Which encoding a text is taken for: words of many languages in their usual code pages, few and many."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import make_lake
from test_cli import Run, run

import gentus
from gentus.lake import Source, read, read_path
from gentus.lake.encoding import guess_encoding, guess_note
from gentus.lake.files import to_text

__all__ = ["run"]  # a fixture
# By encoding, words of a language.
WORDS = (
    (
        "cp1250",
        "Łódź Gdańsk Świdnica Poznań Kraków Wrocław Częstochowa Białystok Toruń "
        "Żywiec Zielona źródło święto książka żółty ręka dziewięć pięć",
    ),
    (
        "cp1250",
        "Plzeň Děčín Žďár Šumperk Příbram Ústí Náchod Třebíč Kroměříž Mělník město řeka dům kůň žena člověk",
    ),
    (
        "cp1250",
        "Győr Székesfehérvár Szolnok Hódmezővásárhely Érd Szombathely "
        "Nagykőrös kőszeg erdő szőlő tükör fűtés hűség",
    ),
    (
        "iso8859-2",
        "Plzeň Děčín Žďár Šumperk Příbram Ústí Náchod Třebíč Kroměříž Mělník město řeka dům kůň",
    ),
    (
        "iso8859-2",
        "Łódź Gdańsk Świdnica Poznań Kraków Częstochowa Białystok Toruń Żywiec źródło święto książka żółty",
    ),
    ("cp1251", "Москва Казань Самара Омск Пермь Уфа Сочи Тула город река дом книга человек улица школа"),
    ("cp1251", "Київ Львів Одеса Харків Чернівці Вінниця місто річка їжак європа"),
    ("cp1251", "София Пловдив Варна Бургас Русе Плевен град река къща улица"),
    ("koi8-r", "Москва Казань Самара Омск Пермь Уфа Сочи Тула город река дом книга человек улица школа"),
    ("koi8-r", "МОСКВА КАЗАНЬ САМАРА ПЕРМЬ ТУЛА ГОРОД РЕКА"),
    ("cp866", "Москва Казань Самара Омск Пермь Уфа Сочи Тула город река дом книга человек улица школа"),
    ("cp866", "МОСКВА КАЗАНЬ САМАРА ПЕРМЬ ТУЛА ГОРОД РЕКА"),
    (
        "cp1252",
        "Köln München Düsseldorf Nürnberg Straße Größe Übung Österreich Äpfel Mädchen Bücher für über",
    ),
    (
        "cp1252",
        "Genève Orléans Besançon Nîmes Châteauroux Évreux cœur français été où déjà garçon hôtel maïs",
    ),
    (
        "cp1252",
        "Málaga Córdoba León España niño años Muñoz José García Peñíscola corazón ¿qué ¡sí mañana",
    ),
    ("cp1252", "Malmö Göteborg Västerås Örebro Linköping Umeå Gävle Skövde år öga"),
    ("cp1252", "Reykjavík Kópavogur Hafnarfjörður Ísafjörður Þingvellir Seyðisfjörður maður"),
    ("cp1252", "meatworker’s – couldn’t “so” café 5€ £5 £12 £7 20° naïve résumé £1m km² ½ Year– don’t"),
    ("cp1252", "São Paulo Brasília Goiânia Maceió coração não ação útil português pão"),
    ("cp1252", "København Århus Ålborg Randers Køge Næstved Hillerød år æble ø"),
    ("cp1252", "£5 £12 £7 £100 £1.50 £3m"),
    ("cp1252", "2010–2011 1990–1995 a—b 2000–01"),
    ("cp1252", "20° 45°N 12°C 30°W"),
    ("cp1252", "Müller García François Søren Åse São Peña Château Zürich Kraków"),
    ("cp1253", "Αθήνα Πάτρα Λάρισα Βόλος Ηράκλειο Θεσσαλονίκη πόλη δρόμος σπίτι άνθρωπος βιβλίο"),
    ("cp1253", "ΑΘΗΝΑ ΠΑΤΡΑ ΛΑΡΙΣΑ ΒΟΛΟΣ ΗΡΑΚΛΕΙΟ"),
    ("cp1254", "İzmir Eskişehir Iğdır Muğla Şanlıurfa Diyarbakır Çorum Ağrı Kütahya kış ağaç şehir"),
    ("cp1255", "ירושלים חיפה אשדוד תל אביב נתניה רחובות עיר נהר ספר בית"),
    ("cp1256", "القاهرة دمشق بغداد الرياض تونس مدينة كتاب بيت شارع مدرسة"),
    ("cp1257", "Šiauliai Panevėžys Klaipėda Mažeikiai Utena ąžuolas žmogus šuo čia ėjo įvykis ūkis"),
    ("shift_jis", "東京 大阪 名古屋 さいたま 札幌 神戸 京都 福岡 川崎 広島 仙台 カタカナ"),
    ("euc_jp", "東京 大阪 名古屋 さいたま 札幌 神戸 京都 福岡 川崎 広島 仙台 カタカナ"),
    ("euc_kr", "서울 부산 인천 대구 대전 광주 울산 수원 창원 고양"),
    ("gbk", "北京 上海 广州 深圳 天津 重庆 成都 武汉 西安 杭州 南京"),
    ("big5", "臺北 高雄 臺中 臺南 新竹 基隆 嘉義 花蓮 宜蘭 屏東"),
    (
        "tis-620",
        "กรุงเทพ เชียงใหม่ ภูเก็ต ขอนแก่น สงขลา ชลบุรี ระยอง ลำปาง นนทบุรี เชียงราย พัทยา ตรัง น่าน",
    ),
    ("mac-roman", "Genève Orléans Besançon Nîmes Châteauroux Évreux français été déjà garçon hôtel"),
    ("mac-roman", "Málaga Córdoba León España niño años Muñoz José García corazón"),
    ("mac-roman", "Köln München Düsseldorf Nürnberg Straße Größe Übung Mädchen Bücher für"),
    ("mac-roman", "Kai’s “Stormy” “Calli” “Callie” don’t it’s café"),
    ("mac-roman", "Chloë Rodríguez Skarsgård Cerón Vélez"),
    ("iso-8859-15", "cœur sœur bœuf œuf français été"),
    ("utf-16-le", "Москва Казань Самара Омск Пермь"),
    ("utf-16-le", "Köln Paris Roma"),
    ("utf-16-le", "東京 大阪 名古屋 さいたま"),
    ("utf-16-be", "Москва Казань Самара Омск Пермь"),
    ("utf-16-be", "Köln Paris Roma"),
    ("utf-16-be", "東京 大阪 名古屋 さいたま"),
)
WESTERN = ("cp1252", "mac-roman", "iso-8859-15")


def table(words: list[str]) -> str:
    return "id,name,amount\n" + "".join(f"{at},{word},{at * 7}\n" for at, word in enumerate(words))


@pytest.mark.parametrize(("encoding", "words"), WORDS, ids=lambda value: value[:12])
def test_many_words_tell_their_encoding(encoding: str, words: str) -> None:
    text = table(words.split())
    assert to_text(text.encode(encoding))[0] == text


@pytest.mark.parametrize(("encoding", "words"), WORDS, ids=lambda value: value[:12])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_words_are_read_rightly_or_as_western_text_and_told(
    encoding: str, words: str, count: int
) -> None:
    some = words.split()[:count]
    text, data = table(some), table(some).encode(encoding)
    found, guessed = to_text(data)
    if found == text:
        return
    known = [("iso8859-2", "Plzeň"), ("euc_jp", "東京"), ("cp1250", "Győr")]
    if guessed == "cp1252" and (encoding, some[0]) != known[2]:
        # Words such as Gdañsk are plain in it, and nothing shows that they are Polish.
        plain = encoding.startswith(("cp125", "iso8859-2")) and count < 3
        assert plain or "guessed" in guess_note(guessed, [found])
        assert count < 3 or encoding in WESTERN
    else:
        assert (encoding, some[0]) in known


@pytest.mark.parametrize(
    "text",
    [
        "Meatworker – Labourer\nMeatworker – Slicer\nthe meatworker’s pay\nit’s – isn’t",
        "£5\n£12\n£1.50\n£3m\n£ 7",
        "20°\n45°N\n12°C",
        "½\n1½\n½m\nkm²",
        "“so”\n‘so’\ncouldn’t\n5 €\n…",
        "Köln Genève Málaga",
        "São Paulo, Göteborg, Zürich, Besançon, Peña, Århus",
        "é",
    ],
)
def test_plain_western_text_is_no_guess(text: str, tmp_path: Path) -> None:
    data = text.encode("cp1252")
    assert guess_encoding(data) == "cp1252"
    assert guess_note("cp1252", [text]) == ""
    (tmp_path / "a.csv").write_bytes(b"id,name\n1,x\n2," + data.splitlines()[0].replace(b",", b"") + b"\n")
    assert "guessed" not in read_path(tmp_path / "a.csv").reading


def test_text_of_the_old_mac_is_no_japanese() -> None:
    """Bytes that a library takes for half-width katakana, or for single ideographs within names."""
    for text in ("Kai’s “Stormy” “Calli” “Callie”", "Osmeña Chávez Rodríguez Penélope"):
        assert to_text(text.encode("mac-roman"))[0] == text
    mixed = "Osmeña Chávez".encode("mac-roman") + b" Pe\xcc\xb1a Beyonc\xcc\xa9 S\xcc\xc1nchez"
    assert guess_encoding(mixed) in ("cp1252", "mac_roman")
    assert "guessed by words such as" in guess_note("cp1252", [mixed.decode("cp1252", "replace")])


RUSSIAN = "id,город\n1,Москва\n2,Казань\n3,Самара\n4,Пермь\n"


def test_an_encoding_that_is_said_decides(tmp_path: Path, run: Run) -> None:
    """For all files, by a rule, for one table, and back; a sync reads again what is read in another way."""
    lake = make_lake(tmp_path / "lake", ["fish"], 1)
    for name in ("a.csv", "b.csv"):  # too few words to tell
        (lake / name).write_bytes("id,город\n1,Уфа\n2,Уфа\n".encode("cp1251"))
    index = tmp_path / "my.index"
    assert run("index", lake, "-o", index, "--encoding", "cp1251").code == 0

    def town(name: str) -> str:
        with gentus.Index(index) as opened:
            return opened.describe(name).columns[1].examples[0]

    def reread(*arguments: object) -> object:
        return run(*arguments, "--json").json()["reread"]

    assert town("a.csv") == "Уфа"
    assert reread("sync", index, "--encoding", "koi8-r") == ["a.csv", "b.csv", "fish_0.csv"]
    assert town("a.csv") == "Уфа".encode("cp1251").decode("koi8-r")
    assert reread("sync", index) == []
    (lake / "gentus.toml").write_text('[[files]]\npath = "b.csv"\nencoding = "cp1251"\n')
    assert reread("sync", index) == ["b.csv"]
    assert town("b.csv") == "Уфа"
    assert reread("add", index, lake / "a.csv", "--encoding", "windows-1251") == ["a.csv"]
    assert reread("sync", index, "--encoding", "auto") == ["fish_0.csv"]
    assert town("a.csv") == town("b.csv") == "Уфа"
    done = run("union", index, lake / "a.csv", "--tables", "b.csv", "-o", tmp_path / "out.csv", "--force")
    assert done.code == 0, done.err
    assert (tmp_path / "out.csv").read_text("utf-8").count("Уфа") == 4


def test_an_encoding_of_a_query(tmp_path: Path, run: Run) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "towns.csv").write_text(RUSSIAN, "utf-8")
    index = tmp_path / "my.index"
    run("index", lake, "-o", index)
    query = tmp_path / "query.csv"
    query.write_bytes("id,город\n1,Я\n".encode("cp866"))
    wrong = run("align", index, query, "towns.csv", "--json").json()
    right = run("align", index, query, "towns.csv", "--encoding", "cp866", "--json").json()
    assert "город" not in str(wrong["pairs"])
    assert "город" in str(right["pairs"])
    assert run("search", index, query, "--encoding", "cp866").code == 0
    with gentus.Index(index) as opened:
        scores = [opened.search(query, encoding=name)[0].score for name in ("cp866", "cp1252")]
        assert scores[0] > scores[1]
        assert opened.find(query, encoding="latin-1").encoding == "iso8859-1"
        with pytest.raises(TypeError, match="unknown option code"):
            opened.sync(code="latin-1")  # type: ignore[call-arg]
    for arguments in (("search", index, query), ("index", lake, "-o", tmp_path / "other.index")):
        done = run(*arguments, "--encoding", "klingon")
        assert done.code != 0
        assert "'klingon' is no encoding of text" in done.err
    (lake / "gentus.toml").write_text('[[files]]\npath = "*.csv"\nencoding = "klingon"\n')
    assert "gentus.toml: [[files]] number 1: 'klingon' is no encoding" in run("sync", index).err


def test_a_guess_is_told_and_a_strict_union_stops_at_it(tmp_path: Path, run: Run) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "a.csv").write_bytes(RUSSIAN.encode("cp1251"))
    (lake / "b.csv").write_text(RUSSIAN, "utf-8")
    index, out = tmp_path / "my.index", tmp_path / "out.csv"
    assert "1 not read in the usual way" in run("index", lake, "-o", index).err
    told = run("info", index, "--reading").out
    assert told.strip() == "a.csv: encoding cp1251, guessed by words such as 'Москва'"
    union = ("union", index, lake / "b.csv", "--tables", "a.csv", "-o", out, "--force")
    assert "encoding cp1251, guessed by words such as" in run(*union).err
    out.unlink()
    stopped = run(*union, "--strict")
    assert stopped.code == 1
    assert "a.csv: encoding cp1251, guessed by words such as 'Москва'" in stopped.err
    assert "decide with --encoding" in stopped.err
    assert not out.exists()
    run("add", index, lake / "a.csv", "--encoding", "cp1251")
    assert run("info", index, "--reading").out == ""
    assert run(*union, "--strict").code == 0
    assert out.read_text("utf-8").count("Казань") == 2


def test_a_mark_decides_before_an_encoding_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(RUSSIAN, "utf-8-sig")
    source = Source("a.csv", path, None, 0, 0, encoding="cp1251")
    assert read(source).columns[1].cells[0] == "Москва"
    assert [column.name for column in read(source).columns] == ["id", "город"]


@pytest.mark.parametrize(
    "data",
    [b"a" * 65_000 + b"\xa3", b"\xa4\xa4\xa4a" * 20_000, b"\xa3a" * 40_000, b"\xe0\xc0" * 40_000],
    ids=["one sign", "no blanks", "money", "capitals"],
)
def test_no_text_takes_long(data: bytes) -> None:
    started = time.perf_counter()
    guess_note(guess_encoding(data), [data.decode("cp1252", "replace")])
    assert time.perf_counter() - started < 1
