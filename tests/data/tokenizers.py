"""Tokenizers of letters, to make tiny BERTs and T5s with."""

from __future__ import annotations

from string import ascii_lowercase as letters

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def word_pieces() -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer like BERT's that knows letters only, so that a word has as many tokens."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, "[", "]", *letters, *(f"##{letter}" for letter in letters)]
    pieces = Tokenizer(models.WordPiece({v: i for i, v in enumerate(vocabulary)}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.enable_padding(length=128)  # as MiniLM's has it
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return _fast(pieces, **dict(zip(names, special, strict=True)))


def sentence_pieces() -> PreTrainedTokenizerFast:
    """A Unigram tokenizer like T5's: nothing in front, the end of sequence behind."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces = Tokenizer(models.Unigram(vocabulary + [(letter, -3.0) for letter in letters], unk_id=2))
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    return _fast(pieces, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _fast(pieces: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=pieces, **special)
