"""Which encoding a text is taken for: words of many languages in their usual code pages, few and many."""

from __future__ import annotations

from pathlib import Path

import pytest

from gentus.lake import read_path
from gentus.lake.encoding import guess_encoding, guess_note
from gentus.lake.files import to_text

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
