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
_MOSTLY, _BETTER = 0.4, 0.3  # or from which share on, if it is so much larger than as western text
_SEVERAL = 3  # plausible words that tell an encoding, ...
_LONG = 10  # ... or one less, of so many letters beyond ASCII
_BETWEEN = re.compile(rb'[\s,;|"]+')  # words
_LONGEST = 100  # bytes of a word that are looked at
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
    found = (token[:_LONGEST] for token in _BETWEEN.split(look) if not token.isascii())
    tokens = list(dict.fromkeys(found))[:_WORDS]
    western = max(_plausibility([one.decode(WESTERN, "replace") for one in tokens], _USUAL.split()))[0]
    if western >= _PLAUSIBLE:
        return WESTERN
    ranked = [(0.0, 0.0, WESTERN)]
    for encoding, alphabets in _ALPHABETS:
        texts = [token.decode(encoding, "replace") for token in tokens]
        judged = _plausibility(texts, alphabets.split())
        ranked += [(share + common / 2, share, encoding) for share, several, common in judged if several]
    _, share, best = max(ranked, key=lambda one: one[0])  # of equally good ones, the first
    if share >= _PLAUSIBLE:
        return best
    if _is_thai(b" ".join(tokens)):
        return _THAI
    return _east_asian(look) or (best if share >= max(_MOSTLY, western + _BETTER) else WESTERN)


def guess_note(encoding: str, texts: Iterable[str]) -> str:
    """What is said of a guess, with an example; empty for UTF and plain western text."""
    if encoding.startswith("utf"):
        return ""
    found = chain.from_iterable(re.split(r'[ \t\r\n,;|"]+', text[:_LOOK]) for text in texts)
    words = list(dict.fromkeys(word[:_LONGEST] for word in found if not word.isascii()))[:_WORDS]
    if not words or (encoding == WESTERN and is_western(words)):
        return ""
    shown = max(words[:20], key=lambda word: len(_FOREIGN.findall(word)))[:40]
    return f"encoding {encoding}, guessed by words such as {shown!r}"


def is_western(words: list[str]) -> bool:
    """Whether words that were decoded as western text are plain in it."""
    return max(_plausibility(words, _USUAL.split()))[0] >= _PLAUSIBLE


def _plausibility(texts: list[str], alphabets: list[str]) -> list[tuple[float, bool, float]]:
    """How plausible words are, by language: the share of them that are, and whether these are several.

    Of a language in another script also the share of its ten most frequent letters.
    """
    latin = alphabets[0][0] < "\u0370"
    bad = 0  # words
    usual: list[str] = []  # foreign letters of words with signs and capitals in usual places
    for text in texts:
        words = [word for word in _LETTERS.findall(text) if not word.isascii()]
        if _ODD.search(f" {text} ") or not all(_is_usual(word, latin) for word in words):
            bad += 1
        elif not _DASHED.search(text) and len(text) > 1:
            usual.append("".join(_FOREIGN.findall("".join(words).lower())))
    judged = []
    for letters in alphabets:
        good = [word for word in usual if set(letters).issuperset(word)]
        known = "".join(good)
        several = len(good) >= _SEVERAL or (not latin and len(good) == _SEVERAL - 1 and len(known) >= _LONG)
        share = len(good) / (len(usual) + bad) if usual or bad else 1.0
        frequent = sum(map(known.count, letters[:10])) / max(1, len(known))
        judged.append((share, several, 0.0 if latin else frequent))
    return judged


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
