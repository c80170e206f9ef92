"""The encoding of text that is no UTF-8: plain western text, or another encoding in which it has real words.

Tables have few words, and most of those are ASCII: too little for frequencies of letters. But a wrong 8-bit
encoding makes letters of several alphabets, signs inside words, and capitals behind small letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

WESTERN = "cp1252"  # what is assumed where nothing speaks for another one
_RUSSIAN = "оеаинтсрвлкмдпуяызьбгчйхжшюцщэфъё"
_CENTRAL = "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţ"
_USUAL = "äöüß åäöé æøåé éèêëàâîïôûùüçœæ áéíóúüñ ãõáéíóúâêôàçü àèéìíòóù ëïéèö äöüßèàçâôñáéíóøåãêúæë"
# Encodings, and by language their small letters beyond ASCII; those of other scripts by their frequency.
_ALPHABETS = (
    (WESTERN, _USUAL),
    ("cp1254", "çğıöşüâîû\u0307"),
    ("cp1250", _CENTRAL),
    ("iso8859-2", _CENTRAL),
    ("cp1257", "ąčęėįšųūž āčēģīķļņšūž äöõüšž"),
    (WESTERN, "áéíóúýþæöð"),
    ("iso8859-15", f"{_USUAL} äöüõšž"),
    ("mac_roman", f"{_USUAL} äöüßèàçâôñáéíóøåãêúæëïîõûùòìœ"),
    ("cp1255", "יוהלארתבמשנדקעםחפטגסכזןצךףץ"),
    ("cp1256", "اليمنوترةبدعسفحكقجهشأطصخءضذئزثىغإظآؤپچژگ"),
    ("cp1251", f"{_RUSSIAN} оаиніветрслкудмпзягьбчйхцїжюєшщфґ аоиенрстјувкдмпзлгбшчцњжћхђфљџ"),
    ("cp1253", "αοιετσνηυρπκμλςάίόγθδέωήχφβύώξζψϊϋΐΰ"),
    ("koi8-r", _RUSSIAN),
    ("cp866", _RUSSIAN),
)
_THAI = "cp874"
ONE_BYTE = frozenset([*(name for name, _ in _ALPHABETS), _THAI])  # that are guessed, with a byte per sign
_EAST_ASIAN = ("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr")
_WIDER = {"shift_jis": "cp932", "big5": "cp950", "euc_kr": "cp949"}  # with the signs that Windows adds
_PLAUSIBLE = 0.9  # of the words of a text, from which on it is taken for one in an alphabet
_SEVERAL = 3  # plausible words that tell an encoding, ...
_LONG = 10  # ... or one less, of so many letters beyond ASCII
_TOKEN = re.compile(rb'[^\s,;|"]*[\x80-\xff][^\s,;|"]*')
_LOOK = 64 << 10  # bytes
_WORDS = 500
_LETTER = r"[^\W\d_ªºµ½¼¾¹²³]"
_LETTERS = re.compile(f"{_LETTER}+")
_DASHED = re.compile("[a-z][–—][a-z]")  # a dash, or a letter in another encoding
# Signs that no text has, or not in that position; a token is searched, with blanks around it.
_ODD = re.compile(
    r"(?![–—’‘“”„‚«»‹›…•·°½¼¾¹²³£€¥¢®™©§±×÷¿¡´†№‰])[^\w\x00-\x7f\xa0]"
    f"|{_LETTER}(?![–—’…·×´])[^\\w\\x00-\\x7f\\xa0]{_LETTER}"
    rf"|\w[‘“„‚¿¡]|(?<=[\s(])[”»](?=\w)|[£€¥¢][a-z]*(?![A-Za-z]){_LETTER}"
    rf"|[a-z]{{4}}[¹²³]|[®™²³¹]{_LETTER}|{_LETTER}[ªºµ²³¹]{_LETTER}|{_LETTER}[£½¼¾]|[ªº£€¥¢®™©§±÷½¼¾¹²³]{{2}}"
)
_MISPLACED = re.compile("[ךםןףץ][א-ת]")  # these end a word
_ASCII = re.compile(r"[A-Za-z]")
_VOWELS = "\u0e30-\u0e3a\u0e40-\u0e4d"  # and tones, which stand beside consonants
_SYLLABLES = re.compile(
    "(?:[\u0e40-\u0e44]?[\u0e01-\u0e2e][\u0e31\u0e34-\u0e3a\u0e47\u0e4d]?[\u0e48-\u0e4c]?[\u0e30\u0e32\u0e33\u0e45]?"
    "|[\u0e2f\u0e46\u0e50-\u0e59])+"
)
_RUN = re.compile(rb"[\x80-\xff]+")
_FEWEST_VOWELS = 0.25  # of the letters of a Thai text
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_IDEOGRAPHS = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_MIXED = re.compile("[a-z][^\x00-\x7f]|[^\x00-\x7f][a-z]")


def guess_encoding(data: bytes) -> str:
    """The encoding of some text that is not UTF-8; a name that Python knows."""
    look = data[:_LOOK]
    tokens = list(dict.fromkeys(_TOKEN.findall(look)))[:_WORDS]
    best, highest = WESTERN, 0.0
    for encoding, alphabets in _ALPHABETS:
        texts = [token.decode(encoding, "replace") for token in tokens]
        if alphabets == _USUAL and encoding == WESTERN and is_western(texts):
            return WESTERN
        for letters in alphabets.split():
            share, several, common = _plausibility(texts, letters)
            if several and share >= _PLAUSIBLE and share + common / 2 > highest:
                best, highest = encoding, share + common / 2
    if highest:
        return best
    words = b" ".join(tokens)
    return _THAI if _is_thai(words) else _east_asian(look) or WESTERN


def guess_note(encoding: str, texts: Iterable[str]) -> str:
    """What is said of a guess, with an example; empty for UTF and plain western text."""
    found = chain.from_iterable(re.split(r'[ \t\r\n,;|"]+', text[:_LOOK]) for text in texts)
    words = list(dict.fromkeys(word for word in found if not word.isascii()))[:_WORDS]
    if not words or encoding.startswith("utf") or (encoding == WESTERN and is_western(words)):
        return ""
    shown = max(words[:20], key=lambda word: len(_FOREIGN.findall(word)))[:40]
    return f"encoding {encoding}, guessed by words such as {shown!r}"


def is_western(words: list[str]) -> bool:
    """Whether words that were decoded as western text are plain in it."""
    return any(_plausibility(words, letters)[0] >= _PLAUSIBLE for letters in _USUAL.split())


def _plausibility(texts: list[str], letters: str) -> tuple[float, bool, float]:
    """How plausible words are in one language: the share of them that are, and whether they are several.

    Of a language in another script also the share of its ten most frequent letters.
    """
    alphabet, usual = frozenset(letters), frozenset(letters[:10])
    latin = letters[0] < "\u0370"
    good = bad = known = frequent = 0
    for text in texts:
        words = [word for word in _LETTERS.findall(text) if not word.isascii()]
        foreign = [sign for word in words for sign in word.lower() if sign > "\x7f"]
        plausible = alphabet.issuperset(foreign) and all(_is_usual(word, latin) for word in words)
        if not plausible or _ODD.search(f" {text} "):
            bad += 1
        elif not _DASHED.search(text) and len(text) > 1:
            good += 1
            known += len(foreign)
            frequent += sum(sign in usual for sign in foreign)
    several = good >= _SEVERAL or (not latin and good == _SEVERAL - 1 and known >= _LONG)
    return good / max(1, good + bad) if bad else 1.0, several, 0 if latin else frequent / max(1, known)


def _is_usual(word: str, latin: bool) -> bool:
    """Whether a word has capitals where words have them, and letters of one script."""
    cased = not word[1:] or word[1:].islower() or word.isupper() or word.lower() == word.upper()
    return cased and (latin or not _ASCII.search(word)) and not _MISPLACED.search(word)


def _is_thai(words: bytes) -> bool:
    """Whether words are Thai: bytes of other encodings give vowels and tones in wrong places, or none."""
    if not any(len(run) % 2 for run in _RUN.findall(words)):  # two bytes per character
        return False
    found = words.decode(_THAI, "replace").split(" ")
    vowels = sum(len(re.findall(f"[{_VOWELS}]", word)) for word in found)
    wrong = sum(_SYLLABLES.fullmatch(word) is None for word in found)
    return vowels >= _FEWEST_VOWELS * sum(map(len, found)) and wrong <= (1 - _PLAUSIBLE) * len(found)


def _east_asian(data: bytes) -> str | None:
    """An encoding of several bytes per character, if the text has several words in it and is valid."""
    from charset_normalizer import from_bytes

    found = from_bytes(data, cp_isolation=list(_EAST_ASIAN), enable_fallback=False).best()
    if found is None:
        return None
    encoding = _WIDER.get(found.encoding, found.encoding)
    text = data.decode(encoding, "replace")
    words = set(_IDEOGRAPHS.findall(text))
    mixed = len(_MIXED.findall(text))
    return encoding if len(words) >= _SEVERAL and mixed <= (1 - _PLAUSIBLE) * len(words) else None
