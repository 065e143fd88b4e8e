#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/classes.json: the tokenizer that
Hugging Face Transformers builds from a folder, depending on `tokenizer_class`,
`model_type` and the other settings in the folder's files.

    tests/parity/make_tokenizer_classes.py   (after make_tokenizer_calls.py;
                                              transformers 5.22.2)

A case is a folder: `base` becomes tokenizer.json, with the sections in `edit`
replaced; `copy` lists files that are copied; `write` contains the other files.
`expected` is the tokenizer that Python loads from this folder, or null if
Python rejects the folder; `expected.pipeline` is an index into `pipelines`.
"""

import json
import logging
import shutil
import tempfile
import warnings
from pathlib import Path

import transformers
from transformers import AutoTokenizer

OUT = Path(__file__).resolve().parent / "golden/tokenizers"
TEXTS = ["Hello WORLD, how aré you?", "<s> hi  x</s>y <mask> [MASK]\n y",
         " lower<foo> Newest <|endoftext|>", "日本 語 a★b [CLS]a"]
PAIR = ("the quick<foo> fox", " Lower  new")
TXT = ["folders/vocab_txt/vocab.txt"]
BPE = ["folders/gpt2_files/vocab.json", "folders/gpt2_files/merges.txt"]
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
         "cls_token", "mask_token")


def token(content, **flags):
    return {"__type": "AddedToken", "content": content, **flags}


def added(identifier, content, **flags):
    return {"id": identifier, "content": content, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": True,
            "special": False, **flags}


def template(single, pair, **tokens):
    def pieces(text):
        for piece in text.split():
            name, _, kind = piece.partition(":")
            kind = int(kind or 0)
            if name[0] == "$":
                yield {"Sequence": {"id": name[1], "type_id": kind}}
            else:
                yield {"SpecialToken": {"id": name, "type_id": kind}}
    return {"type": "TemplateProcessing", "single": list(pieces(single)),
            "pair": list(pieces(pair)),
            "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}
                               for name, number in tokens.items()}}


def case(name, base=None, copy=(), edit=None, model=None, **write):
    """Returns a case. `model` is the model type; `config` is the content of
    tokenizer_config.json."""
    files = {f"{key}.json": value for key, value in write.items()}
    if "config.json" in files:
        files["tokenizer_config.json"] = files.pop("config.json")
    if model is not None:
        files["config.json"] = model if isinstance(model, dict) else {"model_type": model}
    return {"name": name, "base": base and f"{base}.json", "copy": list(copy),
            "edit": edit or {}, "write": files}


def llama_cases():
    for base in ("llama2_old", "llama2_new"):
        yield case(f"Llama_{base}", base, config={"tokenizer_class": "LlamaTokenizer"})
        yield case(f"LlamaFast_{base}", base, config={"tokenizer_class": "LlamaTokenizerFast"})
        yield case(f"LlamaNoPrefix_{base}", base, config={
            "tokenizer_class": "LlamaTokenizer", "add_prefix_space": False})
    yield case("LlamaLegacy", "llama2_old", config={
        "tokenizer_class": "LlamaTokenizer", "legacy": True})
    yield case("LlamaLegacyNull", "llama2_old", config={
        "tokenizer_class": "LlamaTokenizer", "legacy": None, "add_prefix_space": None,
        "add_bos_token": False, "add_eos_token": True})
    yield case("LlamaTokens", "llama2_old", config={
        "tokenizer_class": "LlamaTokenizer", "pad_token": "<unk>",
        "bos_token": token("</s>", lstrip=True, normalized=True),
        "eos_token": token("<end>"), "additional_special_tokens": ["<foo>", "<bar>"]})
    yield case("LlamaNoProcessor", "llama2_old", edit={"post_processor": None},
               config={"tokenizer_class": "LlamaTokenizer"})
    yield case("LlamaByteLevel", "llama3", config={
        "tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": True})
    yield case("LlamaModelOnly", "llama2_old", model="llama")
    yield case("LlamaOfMistral", "llama2_old", model="mistral", config={
        "tokenizer_class": "LlamaTokenizer", "add_prefix_space": False})
    yield case("LlamaOfPhi3", "llama2_old", model="phi3", config={
        "tokenizer_class": "LlamaTokenizer"})
    yield case("LlamaOfIdefics", "llama2_old", model="idefics")
    yield case("LlamaPadding", "llama2_old", edit={
        "padding": {"strategy": "BatchLongest", "direction": "Right",
                    "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 2,
                    "pad_token": "<unk>"},
        "truncation": {"direction": "Left", "max_length": 3,
                       "strategy": "OnlyFirst", "stride": 1}},
        config={"tokenizer_class": "LlamaTokenizer"})


def bert_cases():
    bert = {"tokenizer_class": "BertTokenizer"}
    yield case("BertFile", "bert", config=bert)
    yield case("BertCased", "bert", config={
        **bert, "do_lower_case": False, "tokenize_chinese_chars": False})
    yield case("BertAccents", "bert", config={**bert, "strip_accents": False})
    yield case("BertStripped", "bert", config={
        **bert, "do_lower_case": False, "strip_accents": True})
    yield case("BertTokens", "bert", config={
        **bert, "cls_token": "the", "sep_token": "[MASK]", "unk_token": "[PAD]"})
    yield case("BertNewTokens", "bert", config={
        **bert, "cls_token": "<new>", "mask_token": token("<mask>", lstrip=True)})
    yield case("BertMap", "bert", special_tokens_map={"cls_token": "the", "sep_token": {
        "content": "</s>", "lstrip": True, "rstrip": False, "single_word": False,
        "normalized": False}}, config={**bert, "cls_token": "a"})
    yield case("BertMapIgnored", "bert", special_tokens_map={"cls_token": "the"},
               config={**bert, "cls_token": "a", "added_tokens_decoder": {
                   "3": {"content": "[SEP]", "lstrip": False, "rstrip": False,
                         "normalized": True, "single_word": False, "special": False},
                   "700": {"content": "<foo>", "lstrip": False, "rstrip": True,
                           "normalized": False, "single_word": False, "special": False}}})
    yield case("BertAdded", copy=TXT, config=bert, added_tokens={"<foo>": 600, "<Bar>": 700})
    yield case("BertAddedSpecial", copy=TXT, added_tokens={"<foo>": 601, "<mask>": 600},
               config={**bert, "mask_token": "<mask>", "additional_special_tokens": ["<foo>"]})
    yield case("BertAddedToFile", "bert", config=bert, added_tokens={"<foo>": 600, "the": 7})
    yield case("BertSameId", "bert", added_tokens={"low": 2, "<x>": 700}, config={
        **bert, "sep_token": token("low", rstrip=True)})
    yield case("BertAddedIgnored", "bert", added_tokens={"<foo>": 600},
               config={**bert, "added_tokens_decoder": {}})
    yield case("BackendAdded", "bert", added_tokens={"<foo>": 600, "<x>": 605})
    yield case("BackendSpecial", "bert", config={
        "tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False,
        "cls_token": "the", "image_token": "<image>", "model_input_names": ["input_ids"],
        "extra_special_tokens": {"audio": "<foo>", "video_token": "[CLS]"}})
    yield case("BackendUnknown", "bert", config={
        "tokenizer_class": "NoSuchTokenizer", "sep_token": "[SEP]"})
    yield case("BertByModel", copy=TXT, model="bert")
    yield case("BertByModelFile", "bert_cased", model="bert")
    yield case("BertByConfigClass", "bert_cased", model={
        "model_type": "llama", "tokenizer_class": "BertTokenizerFast"})
    for name in ("Electra", "MobileBert", "LayoutLM", "SqueezeBert", "ConvBert",
                 "DistilBert", "Lxmert"):
        yield case(f"{name}Files", copy=TXT, config={
            "tokenizer_class": f"{name}Tokenizer", "do_lower_case": False})
    yield case("ConvBertFile", "bert", config={
        "tokenizer_class": "ConvBertTokenizer", "do_lower_case": False, "cls_token": "the"})
    for model in ("electra", "mobilebert", "distilbert", "mpnet", "funnel", "convbert"):
        yield case(f"Model_{model}", copy=TXT, model=model)
    yield case("DistilBertOfBert", copy=TXT, model="bert", config={
        "tokenizer_class": "DistilBertTokenizer"})
    mpnet = {"tokenizer_class": "MPNetTokenizer"}
    yield case("MPNetFiles", copy=TXT, config={**mpnet, "do_lower_case": False})
    yield case("MPNetFile", "bert", config={**mpnet, "pad_token": "[PAD]", "sep_token": "[SEP]"})
    yield case("FunnelFiles", copy=TXT, config={"tokenizer_class": "FunnelTokenizer",
               "unk_token": "[UNK]", "clean_text": False, "wordpieces_prefix": "#"})
    yield case("FunnelFile", "bert", config={"tokenizer_class": "FunnelTokenizerFast",
               "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"})


def byte_level_cases():
    for name in ("GPT2", "Roberta", "Bart", "Longformer", "LED", "Mvp", "Blenderbot",
                 "CodeGen", "Deberta", "GPTNeoX", "Qwen2", "Cohere", "Qwen3_5"):
        kind = {"tokenizer_class": f"{name}Tokenizer"}
        if name != "Qwen3_5":
            yield case(f"{name}Files", copy=BPE, config=kind, added_tokens={"<foo>": 700})
        yield case(f"{name}File", "roberta", config=kind)
        yield case(f"{name}Prefix", "gpt2", config={
            **kind, "add_prefix_space": True, "trim_offsets": False,
            "return_token_type_ids": True})
    for model in ("bart", "longformer", "led", "blenderbot", "codegen", "deberta",
                  "gpt_neox", "qwen2", "opt", "gptj"):
        yield case(f"Model_{model}", copy=BPE, model=model)
    yield case("GPT2Bos", copy=BPE, config={
        "tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "<foo>"})
    yield case("GPTNeoXBos", copy=BPE, config={
        "tokenizer_class": "GPTNeoXTokenizer", "add_eos_token": True})
    yield case("CodeGenBos", copy=BPE, config={
        "tokenizer_class": "CodeGenTokenizer", "add_eos_token": True})
    yield case("RobertaTokens", "roberta", config={
        "tokenizer_class": "RobertaTokenizer", "cls_token": "the", "sep_token": "<sep>",
        "mask_token": token("<mask>", lstrip=True, normalized=False, special=True)})
    yield case("Qwen2OfLlama", "qwen2", model="qwen2", config={
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<foo>"})
    yield case("Qwen2Tokens", "qwen2", config={
        "tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>",
        "added_tokens_decoder": {"1": {"content": "<|end_of_text|>", "normalized": True,
                                       "lstrip": True, "rstrip": False,
                                       "single_word": False, "special": False}},
        "pad_token": "<|end_of_text|>"})
    yield case("CLIPFile", "plain_bpe", config={
        "tokenizer_class": "CLIPTokenizer", "unk_token": "<unk>"})
    yield case("CLIPByModel", "plain_bpe", model="clip", added_tokens={"<foo>": 700},
               config={"unk_token": "<unk>", "bos_token": "<unk>"})
    yield case("OpenAIGPTFile", "plain_bpe", config={"tokenizer_class": "OpenAIGPTTokenizer"})
    yield case("HerbertFile", "plain_bpe", config={"tokenizer_class": "HerbertTokenizer"})
    yield case("GemmaFile", "llama2_old", config={"tokenizer_class": "GemmaTokenizer"})
    yield case("GemmaByModel", "llama2_new", model="gemma2")


def sentencepiece_cases():
    for name in ("XLMRoberta", "Albert", "T5", "Camembert", "Barthez", "DebertaV2",
                 "BigBird", "XLNet", "RemBert"):
        kind = {"tokenizer_class": f"{name}Tokenizer"}
        if name == "Albert":
            kind.update(cls_token="<s>", sep_token="</s>")
        yield case(f"{name}File", "unigram", config=kind)
        yield case(f"{name}Charsmap", "precompiled", config={
            **kind, "add_prefix_space": False, "do_lower_case": name != "Albert",
            "keep_accents": name == "Albert", "split_by_punct": True, "unk_token": "<unk>"})
    yield case("T5Extra", "unigram", config={
        "tokenizer_class": "T5Tokenizer", "extra_ids": 3, "eos_token": "</s>"})
    yield case("T5Additional", "unigram", config={
        "tokenizer_class": "T5Tokenizer", "additional_special_tokens": ["<foo>"]})
    yield case("T5Map", "unigram", config={"tokenizer_class": "T5Tokenizer", "extra_ids": 1},
               special_tokens_map={"additional_special_tokens": ["<foo>", "<extra_id_0>"]})
    yield case("CamembertMap", "unigram", config={"tokenizer_class": "CamembertTokenizer"},
               special_tokens_map={"additional_special_tokens": ["<foo>"]})
    yield case("XLNetUnknown", "unigram", config={
        "tokenizer_class": "XLNetTokenizer", "unk_id": 3, "legacy": False})
    yield case("RemBertNoProcessor", "unigram", edit={"post_processor": None},
               config={"tokenizer_class": "RemBertTokenizer"})
    yield case("RemBertFlags", "unigram", config={
        "tokenizer_class": "RemBertTokenizer", "do_lower_case": True,
        "sep_token": token("[SEP]", normalized=True)})
    yield case("FNetFile", "unigram", config={"tokenizer_class": "FNetTokenizer"})
    for model in ("xlm-roberta", "t5", "mt5", "deberta-v2"):
        yield case(f"Model_{model}", "unigram", model=model)


def backend_cases():
    """Returns cases with other settings, in which tokenizer.json is used as it
    is."""
    yield case("BackendMaxLength", "gpt2", config={"max_len": 12, "pad_token_type_id": 3,
               "pad_token": "<|endoftext|>"})
    yield case("BackendSides", "llama3", edit={
        "padding": {"strategy": {"Fixed": 4}, "direction": "Left",
                    "pad_to_multiple_of": None, "pad_id": 1, "pad_type_id": 0,
                    "pad_token": "<|end_of_text|>"},
        "truncation": {"direction": "Left", "max_length": 512,
                       "strategy": "LongestFirst", "stride": 0}})
    yield case("BackendPrefixSpace", "gpt2", config={"add_prefix_space": True})
    yield case("BackendBos", "gpt2", config={
        "add_bos_token": True, "bos_token": "<|endoftext|>"})
    yield case("BackendNoProcessor", "gpt2", edit={"post_processor": None}, config={
        "add_bos_token": True, "bos_token": "<|endoftext|>"})
    yield case("BackendNotSpecial", "bert", edit={"added_tokens": [
        added(2, "[CLS]"), added(600, "<foo>", rstrip=True)]},
        config={"cls_token": "[CLS]", "sep_token": token("[SEP]", rstrip=True)})
    yield case("BackendMixedSpecial", "bert", config={
        "bos_token": token("<foo>", lstrip=True), "cls_token": "<foo>"})


def processor_cases():
    """Returns cases for post-processors: type ids of overflow rows, and
    offsets that are trimmed more than once."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    prefix = {**level, "add_prefix_space": True}
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
               "trim_offsets": True, "add_prefix_space": True}
    bert = {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    types = template("s:3 $A:4", "s:3 $A:4 s:5 $B:6 s:7", s=0)

    def sequence(*parts):
        return {"type": "Sequence", "processors": list(parts)}
    processors = {
        "Types": types, "Swapped": template("$A s", "$B:1 s $A:0", s=0),
        "Twice": sequence(level, level),
        "LevelRoberta": sequence(level, roberta),
        "RobertaLevel": sequence(roberta, level),
        "RobertaPrefix": sequence(roberta, prefix),
        "BertPrefix": sequence(bert, prefix, prefix),
        "TemplatePrefix": sequence(types, prefix),
        "PrefixTwice": sequence(prefix, prefix), "None": None,
    }
    for name, processor in processors.items():
        yield case(f"Processor{name}", "roberta_prefixed", edit={"post_processor": processor},
                   config={"pad_token": "<pad>"})
        yield case(f"Unprefixed{name}", "roberta", edit={"post_processor": processor},
                   config={"pad_token": "<pad>"})
    for base in ("unigram", "unigram_bytes", "word_level", "bert", "plain_bpe"):
        yield case(f"Trimmed_{base}", base, config={"pad_token": "x"}, edit={
            "post_processor": level, "pre_tokenizer": {
                "type": "Split", "pattern": {"Regex": " ?[^ ]+ ?"}, "invert": False,
                "behavior": "Isolated"}})


def write_folder(folder, one):
    if one["base"]:
        content = json.loads((OUT / one["base"]).read_text())
        content.update(one["edit"])
        (folder / "tokenizer.json").write_text(json.dumps(content))
    for name in one["copy"]:
        shutil.copy(OUT / name, folder)
    for name, content in one["write"].items():
        (folder / name).write_text(json.dumps(content))


def flat(offsets):
    return [offset for pair in offsets for offset in pair]


def sets_sequence_ids(processor):
    """Returns whether a ByteLevel processor follows a processor that inserts
    tokens. Python then treats the inserted tokens as texts when it numbers
    texts, so the numbers are not compared."""
    parts = (processor or {}).get("processors", [])
    return any(part["type"] == "ByteLevel" and any(
        before["type"] != "ByteLevel" for before in parts[:i])
        for i, part in enumerate(parts))


def encoded(tokenizer, pair, **options):
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    has_sequences = not sets_sequence_ids(backend["post_processor"])
    result = tokenizer([PAIR[0]], [PAIR[1]] if pair else None, return_offsets_mapping=True,
                       return_token_type_ids=True, **options)
    rows = range(len(result["input_ids"]))
    return [{"ids": result["input_ids"][i], "types": result["token_type_ids"][i],
             "offsets": flat(result["offset_mapping"][i]),
             **({"sequences": [-1 if s is None else s for s in result.sequence_ids(i)]}
                if has_sequences else {})}
            for i in rows]


def shortened(value):
    """Returns the description without its large parts."""
    if isinstance(value, list):
        return [shortened(part) for part in value]
    if isinstance(value, dict):
        return {key: len(part) if key == "precompiled_charsmap" else shortened(part)
                for key, part in value.items()
                if key not in ("vocab", "merges", "added_tokens")}
    return value


def expected(folder, processor):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    extra = [str(token) for token in tokenizer.extra_special_tokens]
    overflow = {"truncation": True, "max_length": tokenizer.num_special_tokens_to_add(True) + 8,
                "stride": 1, "return_overflowing_tokens": True}
    rows = {"pair": encoded(tokenizer, True)}
    if processor:
        rows.update(
            single=encoded(tokenizer, False),
            bare=encoded(tokenizer, True, add_special_tokens=False),
            overflow=encoded(tokenizer, True, **overflow),
            bare_overflow=encoded(tokenizer, True, add_special_tokens=False, **overflow))
    return {
        "pipeline": shortened(backend),
        "added": [[t["id"], t["content"], "".join(
            name[0] for name in ("single_word", "lstrip", "rstrip", "normalized")
            if t[name]) + ("!" if t["special"] else "")] for t in backend["added_tokens"]],
        "special": {name: str(tokenizer._special_tokens_map[name]) for name in NAMES
                    if tokenizer._special_tokens_map[name] is not None},
        "special_ids": sorted(set(i for i in tokenizer.all_special_ids if i is not None)),
        "extra": extra if len(extra) < 5 else len(extra),
        "size": len(tokenizer), "side": tokenizer.padding_side,
        "truncation_side": tokenizer.truncation_side,
        "max_length": min(tokenizer.model_max_length, 10**9),
        "inputs": tokenizer.model_input_names,
        "ids": ids,
        "decoded": [tokenizer.decode(row) for row in ids],
        "plain": tokenizer.decode(sum(ids, []), skip_special_tokens=True),
        "rows": rows,
        "do_not_pad": len(tokenizer(TEXTS[0], padding="do_not_pad", max_length=4)["input_ids"]),
    }


def main():
    warnings.filterwarnings("ignore")
    logging.disable()
    transformers.logging.set_verbosity_error()
    cases = []
    pipelines = []
    makers = (llama_cases, bert_cases, byte_level_cases, sentencepiece_cases, backend_cases,
              processor_cases)
    for one in (one for maker in makers for one in maker()):
        one["name"] = one["name"].replace("-", "_")
        # Resets this list of the class, because the constructor appends to it.
        transformers.CodeGenTokenizer.model_input_names = ["input_ids", "attention_mask"]
        with tempfile.TemporaryDirectory() as folder:
            write_folder(Path(folder), one)
            try:
                one["expected"] = expected(folder, "post_processor" in one["edit"])
            except BaseException as error:  # A Rust panic is not an Exception.
                print(f"{one['name']}: {type(error).__name__}: {str(error)[:150]!r}")
                one["expected"] = None
        if one["expected"]:
            pipeline = one["expected"]["pipeline"]
            if pipeline not in pipelines:
                pipelines.append(pipeline)
            one["expected"]["pipeline"] = pipelines.index(pipeline)
        cases.append(one)
    golden = {"transformers": transformers.__version__, "texts": TEXTS, "pair": PAIR,
              "pipelines": pipelines, "cases": cases}
    (OUT / "classes.json").write_text(
        json.dumps(golden, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
