#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/metrics.json: metrics of predictions by scikit-learn and SciPy.

    tests/parity/make_metrics.py      (scikit-learn 1.9.1, SciPy 1.17.1)
"""

import json
import math
import warnings
from pathlib import Path

import numpy
import scipy
import sklearn
from scipy import stats
from sklearn import metrics

warnings.filterwarnings("ignore")

RANDOM = numpy.random.default_rng(20261)


def classes(name, predictions, references, positive=1):
    predictions, references = [int(x) for x in predictions], [int(x) for x in references]
    scores = {}
    for average in ("binary", "micro", "macro", "weighted"):
        if average == "binary" and len(set(predictions + references)) > 2:
            continue
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            references, predictions, average=average, pos_label=positive, zero_division=0)
        scores[average] = [float(precision), float(recall), float(f1)]
    return {
        "name": name, "predictions": predictions, "references": references,
        "pos_label": positive,
        "accuracy": float(metrics.accuracy_score(references, predictions)),
        "matthews": float(metrics.matthews_corrcoef(references, predictions)),
        "f1": scores,
    }


def numbers(name, predictions, references):
    predictions, references = [float(x) for x in predictions], [float(x) for x in references]

    def none_if_nan(value):
        return None if math.isnan(value) else float(value)
    return {
        "name": name, "predictions": predictions, "references": references,
        "pearson": none_if_nan(stats.pearsonr(predictions, references)[0]),
        "spearman": none_if_nan(stats.spearmanr(predictions, references)[0]),
    }


def tokens(name, logits, references):
    logits = numpy.asarray(logits, dtype=numpy.float64)
    kept = [i for i, r in enumerate(references) if r != -100]
    loss = metrics.log_loss(
        [references[i] for i in kept], scipy.special.softmax(logits, axis=-1)[kept],
        labels=list(range(logits.shape[-1])))
    return {"name": name, "logits": logits.tolist(), "references": list(references),
            "perplexity": math.exp(loss)}


def main():
    two = RANDOM.integers(0, 2, 200)
    five = RANDOM.integers(0, 5, 300)
    noisy = numpy.where(RANDOM.random(300) < 0.6, five, RANDOM.integers(0, 5, 300))
    real = RANDOM.normal(size=100)
    golden = {
        "made_by": {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__},
        "classes": [
            classes("Binary", numpy.where(RANDOM.random(200) < 0.8, two, 1 - two), two),
            classes("PositiveIsZero", [0, 0, 1, 1, 0], [0, 1, 1, 0, 0], positive=0),
            classes("FiveClasses", noisy, five),
            classes("AllRight", [0, 1, 2, 1], [0, 1, 2, 1]),
            classes("AllWrong", [1, 0, 1, 0], [0, 1, 0, 1]),
            classes("OneRow", [1], [1]),
            classes("OneClass", [1, 1, 1], [1, 1, 1]),
            classes("OneClassWithoutThePositive", [0, 0], [0, 0]),
            classes("NeverPredicted", [0, 0, 0, 0], [0, 1, 1, 0]),
            classes("NeverThere", [1, 1, 0], [0, 0, 0]),
            classes("ClassOnlyPredicted", [0, 1, 7, 7], [0, 1, 1, 0]),
            classes("NegativeClasses", [-1, -1, 3, 3], [-1, 3, 3, -1], positive=3),
        ],
        "numbers": [
            numbers("Normal", real, real + RANDOM.normal(size=100)),
            numbers("TwoRows", [1, 2], [5, 3]),
            numbers("Ties", [1, 2, 2, 3, 3, 3, 4], [1, 1, 2, 2, 5, 5, 3]),
            numbers("Monotone", [1, 2, 3, 4], [1, 10, 100, 1000]),
            numbers("Constant", [1, 1, 1], [1, 2, 3]),
            numbers("BothConstant", [2, 2], [2, 2]),
            numbers("Large", [1e200, 2e200, 4e200], [1, 2, 3]),
            numbers("NearOne", 1e8 + real[:20], 1e8 - real[:20]),
        ],
        "tokens": [
            tokens("Tokens", RANDOM.normal(size=(30, 7)) * 2, RANDOM.integers(0, 7, 30).tolist()),
            tokens("SomeIgnored", RANDOM.normal(size=(6, 3)), [0, -100, 2, 1, -100, 0]),
        ],
    }
    path = Path(__file__).resolve().parent / "golden" / "metrics.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
