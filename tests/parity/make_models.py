#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/models/: outputs of tiny models in Hugging Face Transformers.

    tests/parity/make_models.py [folder [case…]]   (Transformers 5.22.2,
                                                    torch 2.11.0)

A case is a folder `<model>_<head>[_<variant>]` that `save_pretrained` wrote,
plus `golden.safetensors`:

    input.<name>   the batch
    output.<name>  the outputs in eval mode; one hidden state and one
                   attention per layer
    grad.<name>    the gradient of the loss for every parameter
    after.<name>   every parameter after ten steps of AdamW with a linear
                   schedule and without dropout
"""

import json
import sys
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import save_file

OUT = Path(sys.argv[1] if len(sys.argv) > 1
           else Path(__file__).parent / "golden" / "models")
ROWS, TOKENS, VOCAB = 3, 7, 23
STEPS, LR = 10, 1e-3

BERT = dict(vocab_size=VOCAB, hidden_size=8, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=12,
            max_position_embeddings=16)
ROBERTA = dict(BERT, bos_token_id=0, eos_token_id=2)
DISTILBERT = dict(vocab_size=VOCAB, dim=8, n_layers=2, n_heads=2, hidden_dim=12,
                  max_position_embeddings=16)
GPT2 = dict(vocab_size=VOCAB, n_embd=8, n_layer=2, n_head=2, n_positions=16,
            bos_token_id=1, eos_token_id=1, pad_token_id=0)
LLAMA = dict(vocab_size=VOCAB, hidden_size=8, intermediate_size=12,
             num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
             max_position_embeddings=8, pad_token_id=0)

ENCODERS = [("bert", hf.BertConfig, BERT), ("roberta", hf.RobertaConfig, ROBERTA),
            ("distilbert", hf.DistilBertConfig, DISTILBERT)]
DECODERS = [("gpt2", hf.GPT2Config, GPT2), ("llama", hf.LlamaConfig, LLAMA)]
HEADS = {
    "base": hf.AutoModel,
    "sequence_classification": hf.AutoModelForSequenceClassification,
    "token_classification": hf.AutoModelForTokenClassification,
    "question_answering": hf.AutoModelForQuestionAnswering,
    "masked_lm": hf.AutoModelForMaskedLM,
    "causal_lm": hf.AutoModelForCausalLM,
}
# The lengths of the rows without padding. Padding is on the right unless the
# case is "left".
LENGTHS = (7, 4, 5)
ROPE = {
    "linear": dict(rope_type="linear", factor=2.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(rope_type="yarn", factor=4.0,
                 original_max_position_embeddings=4),
    "yarn_mscale": dict(rope_type="yarn", factor=4.0, mscale=0.8,
                        mscale_all_dim=0.4, beta_fast=16, beta_slow=2,
                        truncate=False, original_max_position_embeddings=4),
    "longrope": dict(rope_type="longrope", short_factor=[1.0, 1.2],
                     long_factor=[3.0, 2.5], original_max_position_embeddings=4),
    "longrope_short": dict(rope_type="longrope", short_factor=[1.1, 1.2],
                           long_factor=[3.0, 2.5], factor=2.0,
                           original_max_position_embeddings=8),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=8),
}


def one_layer(sizes):
    """Returns the config with one layer instead of two, so that git stores
    half as many bytes."""
    depth = {"num_hidden_layers", "n_layers", "n_layer"} & sizes.keys()
    return {**sizes, depth.pop(): 1}


def cases():
    """Yields (folder, head, config, batch options)."""
    seed = 0
    for name, config, sizes in ENCODERS + DECODERS:
        last = "masked_lm" if (name, config, sizes) in ENCODERS else "causal_lm"
        for head in [*list(HEADS)[:4], last]:
            options = {"num_labels": 3} if "classification" in head else {}
            seed += 1
            small = sizes if head in ("base", last) else one_layer(sizes)
            yield f"{name}_{head}", head, config(**small, **options), \
                {"seed": seed}
    bert = hf.BertConfig
    classify = "sequence_classification"
    yield "bert_sequence_classification_regression", classify, \
        bert(**one_layer(BERT), num_labels=1), {"seed": 40, "labels": "value"}
    yield "bert_sequence_classification_multi_label", classify, \
        bert(**one_layer(BERT), num_labels=3), {"seed": 41, "labels": "several"}
    yield "bert_sequence_classification_left", classify, bert(
        **dict(one_layer(BERT), hidden_act="gelu_new")), {"seed": 42, "left": True,
                                               "positions": True}
    yield "bert_masked_lm_untied", "masked_lm", bert(
        **dict(one_layer(BERT), hidden_act="relu"), tie_word_embeddings=False), {"seed": 43}
    yield "roberta_masked_lm_positions", "masked_lm", hf.RobertaConfig(
        **one_layer(ROBERTA)), {"seed": 44, "positions": True}
    yield "distilbert_masked_lm_sinusoidal", "masked_lm", hf.DistilBertConfig(
        **one_layer(DISTILBERT), sinusoidal_pos_embds=True), {"seed": 45}
    yield "gpt2_causal_lm_left", "causal_lm", hf.GPT2Config(
        **GPT2, scale_attn_by_inverse_layer_idx=True), {
            "seed": 46, "left": True, "positions": True}
    yield "gpt2_causal_lm_untied", "causal_lm", hf.GPT2Config(
        **one_layer(GPT2), tie_word_embeddings=False, n_inner=10), {"seed": 47,
                                                         "full": True}
    yield "llama_causal_lm_tied", "causal_lm", hf.LlamaConfig(
        **one_layer(LLAMA), tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
        head_dim=6), {"seed": 48, "full": True}
    for index, (name, config, sizes) in enumerate(ENCODERS + DECODERS):
        types = {"type_vocab_size": 2} if name == "roberta" else {}
        yield f"{name}_base_states", "base", config(**sizes, **types), {
            "seed": 70 + index, "states": True,
            "positions": name != "distilbert"}
    for index, (name, rope) in enumerate(ROPE.items()):
        sizes = dict(one_layer(LLAMA), max_position_embeddings=4 if name == "dynamic" else 8)
        yield f"llama_causal_lm_{name}", "causal_lm", hf.LlamaConfig(
            **sizes, rope_parameters=rope), {
                "seed": 50 + index, "left": name == "linear"}
    # The first tokens of a row that is padded on the left attend to no token.
    # The last token of the padding predicts a token, so its gradient matters.
    for index, (name, config, sizes) in enumerate(DECODERS):
        yield f"{name}_causal_lm_left_eager", "causal_lm", config(
            **one_layer(sizes)), {"seed": 80 + index, "left": True, "eager": True}
    for index, (name, config, sizes) in enumerate(ENCODERS):
        yield f"{name}_masked_lm_hidden_row_eager", "masked_lm", config(
            **one_layer(sizes)), {"seed": 82 + index, "hidden_row": True, "eager": True}


def batch(name, head, config, options):
    draw = torch.Generator().manual_seed(options["seed"])

    def integers(high, *shape, low=0):
        return torch.randint(low, high, shape, generator=draw)

    pad = config.pad_token_id
    ids = integers(VOCAB, ROWS, TOKENS, low=3)
    mask = torch.ones(ROWS, TOKENS, dtype=torch.long)
    if not options.get("full"):
        for row, length in enumerate(LENGTHS):
            hidden = slice(0, TOKENS - length) if options.get("left") \
                else slice(length, TOKENS)
            ids[row, hidden] = pad
            mask[row, hidden] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if name.startswith("bert") or getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = integers(2, ROWS, TOKENS)
    if options.get("positions"):
        inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0) + 2
    if head == "sequence_classification":
        kind = options.get("labels", "class")
        inputs["labels"] = {
            "class": integers(config.num_labels, ROWS),
            "value": torch.rand(ROWS, generator=draw),
            "several": integers(2, ROWS, config.num_labels).float()}[kind]
    elif head == "question_answering":
        # The answer of the second row is outside the text and is ignored.
        inputs["start_positions"] = torch.tensor([1, TOKENS, 0])
        inputs["end_positions"] = torch.tensor([3, TOKENS + 4, 2])
    elif head != "base":
        high = config.num_labels if head == "token_classification" else VOCAB
        inputs["labels"] = integers(high, ROWS, TOKENS).masked_fill(
            mask == 0, -100)
    if options.get("hidden_row"):  # A row whose tokens attend to no token.
        mask[-1] = 0
    return inputs


def loss_of(outputs):
    """Returns the loss. For a model without a head, returns a sum that depends
    on all outputs."""
    if "loss" in outputs:
        return outputs.loss
    total = outputs.last_hidden_state.square().mean()
    pooled = outputs.get("pooler_output")
    return total if pooled is None else total + pooled.square().mean()


def copies(model, tensor_of):
    return {name: tensor_of(parameter).detach().clone()
            for name, parameter in model.named_parameters()
            if tensor_of(parameter) is not None}


def train(model, inputs):
    """Runs ten steps in eval mode, which disables dropout."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    schedule = hf.get_scheduler("linear", optimizer, 2, STEPS)
    for _ in range(STEPS):
        loss_of(model(**inputs)).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def write(name, head, config, options):
    torch.manual_seed(options["seed"])
    folder = OUT / name
    # Only eager attention returns attention weights.
    eager = options.get("states") or options.get("eager")
    config._attn_implementation = "eager" if eager else "sdpa"
    model = HEADS[head].from_config(config).eval()
    with torch.no_grad():  # Distinct values, so that the test detects swapped parameters.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            else:
                parameter.mul_(5)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    inputs = batch(name, head, config, options)
    with_states = options.get("states", False)
    outputs = model(**inputs, output_hidden_states=with_states, output_attentions=with_states)
    loss_of(outputs).backward()
    golden = {f"input.{key}": value for key, value in inputs.items()}
    golden |= {f"output.{key}": value.detach().contiguous()
               for key, value in outputs.items()
               if isinstance(value, torch.Tensor)}
    if with_states:
        golden |= {f"output.{key}.{layer}": value.detach().clone()
                   for key in ("hidden_states", "attentions")
                   for layer, value in enumerate(outputs[key])}
    golden |= {f"grad.{key}": value for key, value in
               copies(model, lambda p: p.grad).items()}
    model.zero_grad()
    train(model, inputs)
    golden |= {f"after.{key}": value for key, value in
               copies(model, lambda p: p).items()}
    save_file(golden, folder / "golden.safetensors")


def main():
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    names = []
    for name, head, config, options in cases():
        if not sys.argv[2:] or name in sys.argv[2:]:
            write(name, head, config, options)
        names.append({"name": name, "head": head})
    lines = ",\n".join(json.dumps(entry) for entry in names)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
