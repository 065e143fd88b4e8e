#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/: small tokenizers, and the results of
Hugging Face `tokenizers` on a corpus of difficult texts.

    tests/parity/make_tokenizers.py [name…]     (tokenizers 0.23.3)

Without a name, writes all tokenizers. Each `<name>.json` is a tokenizer.json;
`<name>.golden.json` contains the ids, the offsets, the words and the decoded
text for every text.
"""

import json
import random
import sys
from pathlib import Path

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

import charsmap
import tokenizer_texts

OUT = Path(__file__).resolve().parent / "golden/tokenizers"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def random_texts(count=60):
    """Returns texts with unusual combinations of characters."""
    chance = random.Random(7)
    blocks = [(0x20, 0x7E), (0, 0x1F), (0x7F, 0xFF), (0x100, 0x24F),
              (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF),
              (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF),
              (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2460, 0x24FF),
              (0x3040, 0x30FF), (0x4E00, 0x4E80), (0xAC00, 0xAC80),
              (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF),
              (0x1F300, 0x1F6FF), (0x1D400, 0x1D4FF)]
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(chance.randrange(1, 12)):
            low, high = blocks[chance.choice([0, 0, 0, chance.randrange(len(blocks))])]
            text += "".join(chr(chance.randint(low, high))
                            for _ in range(chance.randrange(1, 5)))
            text += chance.choice(["", "", " ", "  ", "\n"])
        texts.append(text)
    return texts


TEXTS = tokenizer_texts.HARD + tokenizer_texts.TRAINING + random_texts()
# Variants encode fewer texts, to keep the golden files small.
FULL = ("added_tokens", "bert", "gpt2", "llama2_new", "llama3", "precompiled",
        "unigram")
FEW = [i for i in range(len(TEXTS))
       if i < len(tokenizer_texts.HARD) - 20 or i % 3 == 0]
PAIRS = [(TEXTS[i], TEXTS[-1 - i]) for i in range(0, len(TEXTS) // 2, 5)]


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(tokenizer_texts.TRAINING * 3, trainer)
    return tokenizer


def bert(lowercase=True, template=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=BERT_SPECIAL, show_progress=False))
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    else:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return tokenizer


def byte_level(prefix=False, special=("<|endoftext|>",), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return train(tokenizer, trainers.BpeTrainer(
        vocab_size=700, special_tokens=list(special), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


def roberta():
    tokenizer = byte_level(special=ROBERTA_SPECIAL)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tokenizer


def roberta_prefixed():
    tokenizer = byte_level(prefix=True, special=ROBERTA_SPECIAL)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return tokenizer


def llama3(pattern=LLAMA3, ignore_merges=True, normalizer=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<|begin_of_text|>", "<|end_of_text|>"],
        show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|>:0 $A:0",
            pair="<|begin_of_text|>:0 $A:0 <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def byte_tokens():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def llama2(new_style):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if new_style:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    train(trained, trainers.BpeTrainer(
        vocab_size=800, limit_alphabet=120, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens()))
    model = json.loads(trained.to_str())["model"]
    tokenizer.model = models.BPE(
        model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>",
        fuse_unk=True, byte_fallback=True)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0", pair="<s>:0 $A:0 <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer


def plain_bpe():
    """BPE in which each character without a token becomes one unknown
    token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False,
                                     end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return train(tokenizer, trainers.BpeTrainer(
        vocab_size=400, limit_alphabet=60, special_tokens=["<unk>"],
        end_of_word_suffix="</w>", show_progress=False))


def no_unknown_bpe():
    """BPE that drops characters without a token, and in which subwords have a
    prefix."""
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return train(tokenizer, trainers.BpeTrainer(
        vocab_size=400, limit_alphabet=40, continuing_subword_prefix="##",
        show_progress=False))


def unigram(byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(),
        normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"] + (byte_tokens() if byte_fallback else [])
    train(tokenizer, trainers.UnigramTrainer(
        vocab_size=500 + len(special), special_tokens=special, unk_token="<unk>",
        show_progress=False, shrinking_factor=0.5))
    if byte_fallback:
        data = json.loads(tokenizer.to_str())
        data["model"]["byte_fallback"] = True
        data["added_tokens"] = data["added_tokens"][:4]
        tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def precompiled():
    """A `Precompiled` normalizer, as in XLM-RoBERTa, ALBERT and T5."""
    tokenizer = unigram()
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap.charsmap(charsmap.replacements())),
        normalizers.Replace(Regex(" {2,}"), " ")])
    return tokenizer


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
        pre_tokenizers.Digits(individual_digits=True)])
    return train(tokenizer, trainers.WordLevelTrainer(
        vocab_size=300, special_tokens=["[UNK]"], show_progress=False))


def splits(behavior, invert, digits):
    tokenizer = word_level()
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[aeiou]+|\d"), behavior, invert=invert),
        pre_tokenizers.CharDelimiterSplit("-"),
        pre_tokenizers.Punctuation(behavior),
        pre_tokenizers.Digits(individual_digits=digits),
        pre_tokenizers.Split(" ", behavior)])
    tokenizer.decoder = decoders.CTC(pad_token="[UNK]", word_delimiter_token="the")
    return tokenizer


def empty_matches():
    """Uses regular expressions that match between characters."""
    tokenizer = word_level()
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"(?<=\p{Han})(?=\p{Han})|^"), "_"),
        normalizers.Replace(Regex(r"(?=[!?。])"), " q")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"),
        pre_tokenizers.Split(Regex(r"\b"), "merged_with_next"),
        pre_tokenizers.Split(Regex(r"(?<=[a-z])(?=[A-Z])|\s+"), "removed")])
    tokenizer.decoder = decoders.Replace(Regex(r"\b"), "|")
    tokenizer.add_tokens([
        AddedToken("hello", normalized=False), AddedToken("<mask>", normalized=False)])
    return tokenizer


def added_tokens():
    tokenizer = bert()
    tokenizer.add_tokens([
        AddedToken("word", single_word=True),
        AddedToken("WORD", normalized=False),
        AddedToken("<special>", lstrip=True, rstrip=True),
        AddedToken("Größe", normalized=True),
        AddedToken("hello", lstrip=True),
        AddedToken("x", rstrip=True, single_word=True),
    ])
    tokenizer.add_special_tokens([
        AddedToken("<mask>", lstrip=True, special=True, normalized=False),
        AddedToken("<mask>  ", special=True, normalized=False),
        AddedToken("[Mask]", special=True, normalized=True),
    ])
    return tokenizer


def byte_normalizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.FixedLength(length=6)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, trainers.BpeTrainer(
        vocab_size=500, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


TOKENIZERS = {
    "bert": bert,
    "bert_cased": lambda: bert(lowercase=False, template=False),
    "gpt2": byte_level,
    "gpt2_prefixed": lambda: byte_level(prefix=True),
    "roberta": roberta,
    "roberta_prefixed": roberta_prefixed,
    "llama3": llama3,
    "qwen2": lambda: llama3(QWEN2, False, normalizers.NFC()),
    "llama2_old": lambda: llama2(False),
    "llama2_new": lambda: llama2(True),
    "plain_bpe": plain_bpe,
    "no_unknown_bpe": no_unknown_bpe,
    "unigram": unigram,
    "precompiled": precompiled,
    "unigram_bytes": lambda: unigram(byte_fallback=True),
    "word_level": word_level,
    "split_isolated": lambda: splits("isolated", False, True),
    "split_previous": lambda: splits("merged_with_previous", False, False),
    "split_next": lambda: splits("merged_with_next", True, False),
    "split_contiguous": lambda: splits("contiguous", False, True),
    "split_removed": lambda: splits("removed", True, False),
    "empty_matches": empty_matches,
    "added_tokens": added_tokens,
    "byte_normalizer": byte_normalizer,
}


def flat(offsets):
    return [offset for pair in offsets for offset in pair]


def sample(tokenizer, encoding):
    text = tokenizer.decode(encoding.ids, skip_special_tokens=False)
    plain = tokenizer.decode(encoding.ids, skip_special_tokens=True)
    return {
        "ids": encoding.ids,
        "types": encoding.type_ids if any(encoding.type_ids) else [],
        "offsets": flat(encoding.offsets),
        "words": [-1 if word is None else word for word in encoding.word_ids],
        "text": text,
        **({} if plain == text else {"plain": plain}),
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texts.json").write_text(json.dumps(
        {"tokenizers": tokenizers.__version__, "texts": TEXTS, "pairs": PAIRS},
        ensure_ascii=True))
    for name in sys.argv[1:] or TOKENIZERS:
        tokenizer = TOKENIZERS[name]()
        tokenizer.save(str(OUT / f"{name}.json"), pretty=False)
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
        indices = list(range(len(TEXTS))) if name in FULL else FEW
        samples = [sample(tokenizer, tokenizer.encode(TEXTS[i])) for i in indices]
        pairs = [sample(tokenizer, tokenizer.encode(*pair)) for pair in PAIRS[:6]]
        (OUT / f"{name}.golden.json").write_text(json.dumps(
            {"which": indices, "texts": samples, "pairs": pairs}, ensure_ascii=False,
            separators=(",", ":")))


if __name__ == "__main__":
    main()
