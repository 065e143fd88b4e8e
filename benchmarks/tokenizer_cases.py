# SPDX-License-Identifier: Apache-2.0
"""Texts and tokenizers for compare_tokenizers.py.

The stages are those of published tokenizers. The vocabularies are trained on
text found on this machine, nine parts English and one part other languages, as
most published vocabularies are.
"""

import gettext
import json
import random
import sys
import sysconfig
from pathlib import Path

from tokenizers import (Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/parity"))
import charsmap  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4 = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
            r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

SCRIPTS = ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюя",
           "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת",
           "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफ",
           "àâäéèêëîïôöùûüçñ", "가나다라마바사아자차카타파하거너더러머버",
           "的一是不了人我在有他这为之大来以个中上们到说国和地也子"]


def english_texts(size):
    """Documentation and Python sources found on this machine."""
    texts, total = [], 0
    roots = [Path("/usr/share/doc"), Path("/usr/share/common-licenses"),
             Path(sysconfig.get_paths()["stdlib"])]
    for root in roots:
        for path in sorted(root.rglob("*")):
            if total >= size:
                return texts
            if path.suffix not in ("", ".txt", ".md", ".rst", ".py") or \
                    not path.is_file():
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            if "\0" in text or len(text) < 200:
                continue
            texts += [text[i:i + 2000] for i in range(0, min(len(text), 60000), 2000)]
            total += min(len(text), 60000)
    return texts


def translations(path):
    try:
        with open(path, "rb") as file:
            catalog = gettext.GNUTranslations(file)._catalog
    except (OSError, ValueError, LookupError):
        return []
    return [text for key, text in catalog.items() if key and isinstance(text, str)]


def translated_texts(size):
    """The same amount of text in each language into which programs on this
    machine are translated."""
    languages = {}
    for path in sorted(Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo")):
        if not path.parts[4].startswith("en"):
            languages.setdefault(path.parts[4], []).append(path)
    texts = []
    for paths in languages.values():
        total, text = 0, ""
        for message in (m for path in paths for m in translations(path)):
            if total >= size / len(languages):
                break
            text += message + "\n"
            if len(text) > 2000:
                texts.append(text)
                total += len(text.encode())
                text = ""
    return texts


def random_texts(size):
    """Random words in several scripts, with the word frequencies of a language."""
    chance = random.Random(11)
    words = {letters: ["".join(chance.choices(letters, k=chance.randint(2, 9)))
                       for _ in range(3000)] for letters in SCRIPTS}
    texts, total = [], 0
    while total < size:
        letters = SCRIPTS[len(texts) % len(SCRIPTS)]
        picked = [words[letters][min(2999, int(chance.paretovariate(0.8)) - 1)]
                  for _ in range(250)]
        text = "".join(word + chance.choice([" ", " ", " ", " ", ", ", ". "])
                       for word in picked)
        texts.append(text)
        total += len(text.encode())
    return texts


def word_piece(texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=30000, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def byte_bpe(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=50000, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def byte_tokens():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def character_bpe(texts):
    """Like Llama 2: spaces become `▁`, runs of spaces are tokens, too, and no
    token contains the end of a line, which becomes `<0x0A>`."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Sequence([
        normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("\n", "removed"),
        pre_tokenizers.Split(Regex("▁+(?=▁)|▁?[^▁]+"), "isolated")])
    trained.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=32000, limit_alphabet=2000, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens()))
    model = json.loads(trained.to_str())["model"]
    tokenizer = Tokenizer(models.BPE(
        model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>",
        fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = trained.normalizer
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def unigram(texts):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    # The Unigram trainer is slow, so it gets an eighth of the texts.
    tokenizer.train_from_iterator(texts[::8], trainers.UnigramTrainer(
        vocab_size=32000, special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>", show_progress=False))
    return tokenizer


def suffix_bpe(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=30000, limit_alphabet=2000, special_tokens=["<unk>"],
        end_of_word_suffix="</w>", show_progress=False))
    return tokenizer


def word_level(texts):
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
        pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(
        vocab_size=30000, special_tokens=["[UNK]"], show_progress=False))
    return tokenizer


VOCABULARIES = {make.__name__: make for make in (
    word_piece, byte_bpe, character_bpe, unigram, suffix_bpe, word_level)}


def bytes_after(*splits):
    stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in splits]
    return pre_tokenizers.Sequence(stages + [
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def t5_normalizer():
    return normalizers.Precompiled(charsmap.charsmap(charsmap.replacements()))


# For each case: the vocabulary, how many times faster than Python it must be,
# and what to change.
CASES = {
    "bert": ("word_piece", 10, {}),
    "gpt2": ("byte_bpe", 10, {}),
    "gpt_neox": ("byte_bpe", 10, {"normalizer": normalizers.NFC}),
    "claude": ("byte_bpe", 10, {"normalizer": normalizers.NFKC}),
    "gpt4": ("byte_bpe", 10, {"pre_tokenizer": lambda: bytes_after(GPT4)}),
    "llama3": ("byte_bpe", 10, {"pre_tokenizer": lambda: bytes_after(LLAMA3),
                                "ignore_merges": True}),
    "qwen2": ("byte_bpe", 10, {"normalizer": normalizers.NFC,
                               "pre_tokenizer": lambda: bytes_after(QWEN2)}),
    "deepseek": ("byte_bpe", 10, {"pre_tokenizer": lambda: bytes_after(
        r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)}),
    "llama2": ("character_bpe", 10, {}),
    "llama2_metaspace": ("character_bpe", 10, {
        "normalizer": None, "pre_tokenizer": lambda: pre_tokenizers.Metaspace(
            prepend_scheme="first", split=False)}),
    "metaspace_bpe": ("character_bpe", 10, {
        "normalizer": None, "pre_tokenizer": pre_tokenizers.Metaspace}),
    "metaspace_unigram": ("unigram", 10, {"normalizer": None}),
    "gemma": ("character_bpe", 2, {
        "normalizer": lambda: normalizers.Replace(" ", "▁"),
        "pre_tokenizer": lambda: pre_tokenizers.Split(" ", "merged_with_previous")}),
    "t5": ("unigram", 2, {"normalizer": t5_normalizer}),
    "xlnet": ("unigram", 2, {"normalizer": normalizers.NFKC}),
    "gpt4o": ("byte_bpe", 2, {"pre_tokenizer": lambda: bytes_after(GPT4O)}),
    "bloom": ("byte_bpe", 2, {"pre_tokenizer": lambda: bytes_after(BLOOM)}),
    "clip_pattern": ("byte_bpe", 2, {
        "normalizer": lambda: normalizers.Sequence([
            normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase()]),
        "pre_tokenizer": lambda: bytes_after(CLIP)}),
    "suffix_bpe": ("suffix_bpe", 2, {}),
    "word_level": ("word_level", 2, {}),
}


def tokenizer_file(case, folder, texts):
    """Writes the tokenizer.json of a case. Trains its vocabulary if needed."""
    vocabulary, _, changes = CASES[case]
    trained = folder / f"{vocabulary}.vocabulary.json"
    if not trained.exists():
        print(f"training {vocabulary}", file=sys.stderr)
        VOCABULARIES[vocabulary](texts).save(str(trained))
    tokenizer = Tokenizer.from_file(str(trained))
    for stage in ("normalizer", "pre_tokenizer"):
        if stage in changes:
            setattr(tokenizer, stage, changes[stage]() if changes[stage] else None)
    data = json.loads(tokenizer.to_str())
    if "ignore_merges" in changes:
        data["model"]["ignore_merges"] = changes["ignore_merges"]
    path = folder / f"{case}.json"
    path.write_text(json.dumps(data, ensure_ascii=False))
    return path
