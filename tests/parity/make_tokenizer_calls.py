#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/calls.json: results of tokenizer calls
in Hugging Face Transformers with many options. Also writes the folders from
which the tokenizers are loaded.

    tests/parity/make_tokenizer_calls.py   (after make_tokenizers.py;
                                            transformers 5.22.2)
"""

import itertools
import json
import shutil
from pathlib import Path

import transformers
from transformers import AutoTokenizer

OUT = Path(__file__).resolve().parent / "golden/tokenizers"
FOLDERS = OUT / "folders"
BERT = {"tokenizer_class": "BertTokenizer", "model_max_length": 24,
        "do_lower_case": True}
ROBERTA = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512,
           "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
           "sep_token": "</s>", "cls_token": "<s>", "pad_token": "<pad>",
           "mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False,
                          "single_word": False, "normalized": False,
                          "special": True, "__type": "AddedToken"}}
LLAMA = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True,
         "add_eos_token": True, "bos_token": "<s>", "eos_token": "</s>",
         "unk_token": "<unk>", "pad_token": "<extra>", "padding_side": "left",
         "truncation_side": "left", "model_max_length": 1e30,
         "additional_special_tokens": ["<more>"]}
TEXTS = ["Hello world, how are you today?", "", "lower newest",
         "The quick brown fox jumps over the lazy dog again and again."]
PAIRS = ["I am fine.", "thank you very much indeed", "", "wider widest <mask>"]


def write_folder(name, tokenizer, config, **files):
    folder = FOLDERS / name
    folder.mkdir(parents=True)
    if tokenizer:
        shutil.copy(OUT / f"{tokenizer}.json", folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file, content in files.items():
        (folder / file.replace("_dot_", ".")).write_text(content, encoding="utf-8")


def write_folders():
    shutil.rmtree(FOLDERS, ignore_errors=True)
    write_folder("bert", "bert", BERT)
    write_folder("roberta", "roberta", ROBERTA)
    write_folder("llama", "llama2_new", LLAMA)
    model = json.loads((OUT / "bert.json").read_text())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    write_folder("vocab_txt", None, BERT, vocab_dot_txt="\n".join(words) + "\n")
    model = json.loads((OUT / "roberta.json").read_text())["model"]
    merges = "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"])
    vocab = dict(model["vocab"], **{"<mask>": len(model["vocab"])})
    files = {"vocab_dot_json": json.dumps(vocab), "merges_dot_txt": merges}
    write_folder("vocab_json", None, ROBERTA, **files)
    model = json.loads((OUT / "gpt2.json").read_text())["model"]
    merges = "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"])
    files = {"vocab_dot_json": json.dumps(model["vocab"]), "merges_dot_txt": merges,
             "special_tokens_map_dot_json": json.dumps({"pad_token": "<|endoftext|>"})}
    write_folder("gpt2_files", None, {"tokenizer_class": "GPT2Tokenizer"}, **files)


def options():
    yield {}
    yield {"add_special_tokens": False}
    yield {"padding": True}
    yield {"padding": "longest", "pad_to_multiple_of": 8}
    yield {"padding": "max_length", "max_length": 20}
    yield {"padding": True, "padding_side": "left"}
    yield {"max_length": 9}
    yield {"truncation": True}
    yield {"truncation": True, "padding": "max_length"}
    for strategy, length in itertools.product(
            ["longest_first", "only_first", "only_second"], [12, 15]):
        yield {"truncation": strategy, "max_length": length}
    yield {"truncation": True, "max_length": 9, "stride": 2,
           "return_overflowing_tokens": True, "padding": True}
    yield {"truncation": "only_second", "max_length": 13, "stride": 1,
           "return_overflowing_tokens": True}
    yield {"truncation": "only_first", "max_length": 12, "stride": 3,
           "return_overflowing_tokens": True, "padding": "max_length"}


KEYS = {"input_ids": "input_ids", "token_type_ids": "token_type_ids",
        "attention_mask": "attention_mask",
        "special_tokens_mask": "special_tokens_mask",
        "offset_mapping": "offset_mapping",
        "overflow_to_sample_mapping": "overflow_to_sample_mapping"}


def call(tokenizer, pairs, kwargs):
    extra = {"return_special_tokens_mask": True, "return_offsets_mapping": True}
    try:
        result = tokenizer(TEXTS, PAIRS if pairs else None, **kwargs, **extra)
    except BaseException as error:  # A Rust panic is not an Exception.
        return {"error": str(error)}
    return {key: result[key] for key in KEYS if key in result}


def words_call(tokenizer):
    texts = [["Hello", "internationalization", "", "x  y"], ["newest", "!"]]
    result = tokenizer(texts, is_split_into_words=True, padding=True,
                       return_offsets_mapping=True)
    words = [[-1 if w is None else w for w in result.word_ids(i)] for i in range(2)]
    return {"texts": texts, "input_ids": result["input_ids"], "words": words,
            "offset_mapping": result["offset_mapping"]}


def main():
    write_folders()
    golden = {"transformers": transformers.__version__, "texts": TEXTS,
              "pairs": PAIRS, "folders": {}}
    for folder in sorted(path.name for path in FOLDERS.iterdir()):
        kwargs = {"add_prefix_space": True} if folder == "vocab_json" else {}
        tokenizer = AutoTokenizer.from_pretrained(FOLDERS / folder, **kwargs)
        calls = [{"options": call_options, "pairs": pairs,
                  "result": call(tokenizer, pairs, call_options)}
                 for call_options in options() for pairs in (False, True)]
        ids = tokenizer(TEXTS[0])["input_ids"]
        golden["folders"][folder] = {
            "calls": calls,
            "words": words_call(tokenizer),
            "special": {name: getattr(tokenizer, name) for name in (
                "bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                "cls_token", "mask_token")},
            "special_ids": sorted(set(tokenizer.all_special_ids)),
            "size": len(tokenizer),
            "model_input_names": tokenizer.model_input_names,
            "decoded": tokenizer.decode(ids),
            "cleaned": tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=True),
        }
    (OUT / "calls.json").write_text(json.dumps(golden, separators=(",", ":")))


if __name__ == "__main__":
    main()
