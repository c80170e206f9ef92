"""The encoding of text that is no UTF-8: 8-bit encodings by their alphabets, East Asian ones by a library.

Tables have few words, and most of those are ASCII: too little for frequencies of letters. But a wrong 8-bit
encoding makes letters of several alphabets, signs inside words, and capitals behind small letters.
"""

from __future__ import annotations

import re
from collections import Counter

WESTERN = "cp1252"  # what is assumed where nothing speaks for another one
_RUSSIAN = "абвгдежзийклмнопрстуфхцчшщъыьэюяё"
_CENTRAL = "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţ"
_USUAL = "äöüß åäöé æøåé éèêëàâîïôûùüçœæ áéíóúüñ ãõáéíóúâêôàçü àèéìíòóù ëïéèö éäöüßèàçâôñáíóøåãêúæ"
# Encodings, and by language their small letters beyond ASCII. Of equally good ones, the first is taken.
_ALPHABETS = (
    (WESTERN, _USUAL),
    ("cp1254", "çğıöşüâîû\u0307"),
    ("cp1250", _CENTRAL),
    ("iso8859-2", _CENTRAL),
    ("cp1257", "ąčęėįšųūž āčēģīķļņšūž äöõüšž"),
    ("cp1252", "áéíóúýþæöð"),
    ("cp1255", "אבגדהוזחטיכלמנסעפצקרשתךםןףץ"),
    ("cp1256", "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيپچژگ"),
    ("cp1251", f"{_RUSSIAN} абвгґдеєжзиіїйклмнопрстуфхцчшщьюя абвгдђежзијклљмнњопрстћуфхцчџш"),
    ("cp1253", "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ"),
    ("koi8-r", _RUSSIAN),
    ("cp866", _RUSSIAN),
)
_THAI = "cp874"
ONE_BYTE = frozenset([*(name for name, _ in _ALPHABETS), _THAI])  # that are guessed, with a byte per sign
_EAST_ASIAN = ("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr")
_WIDER = {"shift_jis": "cp932", "big5": "cp950", "euc_kr": "cp949"}  # with the signs that Windows adds
_PLAUSIBLE = 0.9  # from which on a text is taken for one in an alphabet
_PREFERRED = 0.12  # by how much another encoding has to be better than the western one
_FEWEST = 3  # bytes of letters that tell an encoding
# All but signs of the western encoding: quotes, dashes, the euro, degrees, fractions and the like.
_FOREIGN = re.compile(
    rb"[\x81\x83\x88\x8a\x8c-\x90\x98\x9a\x9c-\x9f\xa3\xa5\xaa\xaf\xb3\xb6\xb9-\xbf\xc0-\xff]"
)
_WORD = re.compile(rb"[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")
_LOOK = 64 << 10  # bytes
_WORDS = 500
_LETTERS = re.compile(r"[^\W\d_]+")
_ASCII = re.compile(r"[A-Za-z]")
_VOWELS = "\u0e30-\u0e3a\u0e40-\u0e4d"  # and tones, which stand beside consonants
_SYLLABLES = re.compile(
    "(?:[\u0e40-\u0e44]?[\u0e01-\u0e2e][\u0e31\u0e34-\u0e3a\u0e47\u0e4d]?[\u0e48-\u0e4c]?[\u0e30\u0e32\u0e33\u0e45]?"
    "|[\u0e2f\u0e46\u0e50-\u0e59])+"
)
_RUN = re.compile(rb"[\x80-\xff]+")
_FEWEST_VOWELS = 0.25  # of the letters of a Thai text
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "iso8859-2")


def guess_encoding(data: bytes) -> str:
    """The encoding of some text that is not UTF-8; a name that Python knows."""
    look = data[:_LOOK]
    some = b" ".join(_WORD.findall(look)[:_WORDS])
    if len(_FOREIGN.findall(some)) < _FEWEST:  # signs such as dashes and degrees, or a single name
        return WESTERN
    scores = [_plausibility(some, *one) for one in _ALPHABETS]
    scores[0] += _PREFERRED
    best = scores.index(max(scores))
    if scores[best] >= _PLAUSIBLE:
        return _ALPHABETS[best][0]
    if _is_thai(some):
        return _THAI
    return _east_asian(look) or (_ALPHABETS[best][0] if scores[best] > 2 * _PREFERRED else WESTERN)


def _plausibility(words: bytes, encoding: str, alphabets: str) -> float:
    """How much of some words is of one language: the share of its letters, times that of usual words."""
    text = words.decode(encoding, "replace")
    foreign = Counter(sign for sign in text.lower() if sign > "\x7f")
    known = max(sum(foreign[sign] for sign in set(small)) for small in alphabets.split())
    found = [word for word in _LETTERS.findall(text) if not word.isascii()]
    latin = encoding in _LATIN
    usual = sum(
        (word[1:].islower() or word.isupper() or word.lower() == word.upper())
        and (latin or not _ASCII.search(word))
        for word in found
    )
    return float(known / max(1, foreign.total()) * usual / max(1, len(found)))


def _is_thai(words: bytes) -> bool:
    """Whether words are Thai: bytes of other encodings give vowels and tones in wrong places, or none."""
    if not any(len(run) % 2 for run in _RUN.findall(words)):  # two bytes per character
        return False
    found = words.decode(_THAI, "replace").split(" ")
    vowels = sum(len(re.findall(f"[{_VOWELS}]", word)) for word in found)
    wrong = sum(_SYLLABLES.fullmatch(word) is None for word in found)
    return vowels >= _FEWEST_VOWELS * sum(map(len, found)) and wrong <= (1 - _PLAUSIBLE) * len(found)


def _east_asian(data: bytes) -> str | None:
    """An encoding of several bytes per character, if the text is valid in one."""
    from charset_normalizer import from_bytes

    found = from_bytes(data, cp_isolation=list(_EAST_ASIAN), enable_fallback=False).best()
    return None if found is None else _WIDER.get(found.encoding, found.encoding)
