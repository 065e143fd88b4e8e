# SPDX-License-Identifier: Apache-2.0
"""The plot of a training run: loss and learning rate over steps, as plain SVG.

Text has the text color of the page, so that it is readable on light and dark pages.
"""

import math
from html import escape

WIDTH, HEIGHT = 640, 264
LEFT, RIGHT, TOP, BOTTOM = 52, 586, 52, 216  # edges of the plot area
LOSS, RATE = "#2b7bba", "#d9822b"
_SMOOTH = 0.9


def svg(values: dict) -> str:
    """Draws `values`: `points` is a list of (step, loss, learning rate); the rest is progress and throughput."""
    losses = [(s, v) for s, v, _ in values["points"] if v is not None and math.isfinite(v)]
    rates = [(s, r) for s, _, r in values["points"] if r is not None and math.isfinite(r)]
    last = max(values["total"] or values["step"], 1)
    parts = [_steps(last)]
    if rates:
        parts.append(_rate_curve(rates, last))
    if losses:
        parts.append(_loss_curve(losses, last))
    parts += [_headings(values, losses, rates), _bar(values["step"], values["total"])]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'style="max-width:100%" font-family="system-ui,sans-serif" font-size="11" fill="currentColor" role="img" '
        f'aria-label="loss and learning rate over steps">{"".join(parts)}</svg>'
    )


def smoothed(points: list) -> list:
    """An exponential moving average, corrected for its bias at the beginning."""
    average, weight, result = 0.0, 0.0, []
    for step, value in points:
        average = _SMOOTH * average + (1 - _SMOOTH) * value
        weight = _SMOOTH * weight + (1 - _SMOOTH)
        result.append((step, average / weight))
    return result


def ticks(low: float, high: float, max_ticks: int = 5) -> list:
    """Up to `max_ticks` round numbers from `low` to `high`."""
    span = high - low
    if span <= 0:
        return [low]
    size = 10.0 ** math.floor(math.log10(span / max_ticks))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if span / (size * factor) < max_ticks)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _steps(last: int) -> str:
    parts = [f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="currentColor" stroke-opacity=".45"/>']
    for tick in ticks(0, last, 6):
        anchor = "end" if tick > 0.97 * last else "middle"
        parts.append(_text(_x(tick, last), BOTTOM + 15, _number(tick), anchor, opacity=0.7))
    return "".join(parts)


def _loss_curve(points: list, last: int) -> str:
    low, high = min(v for _, v in points), max(v for _, v in points)
    low = 0.0 if 0 <= low < 0.5 * high else low  # the axis starts at zero if the loss gets close to it
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    parts = []
    for tick in ticks(low, high):
        y = _y(tick, low, high)
        parts.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="currentColor" stroke-opacity=".12"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(tick), "end", LOSS))
    parts.append(_line(points, low, high, last, f'stroke="{LOSS}" stroke-opacity=".3"'))
    smooth = smoothed(points)
    parts.append(_line(smooth, low, high, last, f'stroke="{LOSS}" stroke-width="2"'))
    step, value = smooth[-1]
    parts.append(f'<circle cx="{_x(step, last)}" cy="{_y(value, low, high)}" r="3.5" fill="{LOSS}"/>')
    return "".join(parts)


def _rate_curve(points: list, last: int) -> str:
    high = max(r for _, r in points) or 1.0
    style = f'stroke="{RATE}" stroke-width="1.5" stroke-dasharray="5 3"'
    labels = _text(RIGHT + 6, _y(high, 0, high) + 4, _number(high), "start", RATE)
    labels += _text(RIGHT + 6, BOTTOM + 4, "0", "start", RATE)
    return labels + _line(points, 0, high, last, style)


def _headings(values: dict, losses: list, rates: list) -> str:
    parts = []
    if losses:
        parts.append(_heading(LEFT, "start", "loss", f"{losses[-1][1]:.4g}", LOSS))
    if rates:
        parts.append(_heading(RIGHT, "end", "learning rate", f"{rates[-1][1]:.3g}", RATE))
    parts.append(_heading((LEFT + RIGHT) / 2, "middle", values["unit"], f"{values['rate']:.1f}", "currentColor"))
    return "".join(parts)


def _heading(x: float, anchor: str, name: str, value: str, color: str) -> str:
    return _text(x, 14, name, anchor, opacity=0.7) + _text(x, 34, value, anchor, color, 'font-size="19" font-weight="600"')


def _bar(step: int, total) -> str:
    """The progress bar below the plot."""
    if not total:
        return _text(LEFT, HEIGHT - 10, f"step {step}")
    share = min(max(step / total, 0.0), 1.0)
    return (
        f'<rect x="{LEFT}" y="{HEIGHT - 24}" width="{RIGHT - LEFT}" height="6" rx="3" fill-opacity=".12"/>'
        f'<rect x="{LEFT}" y="{HEIGHT - 24}" width="{(RIGHT - LEFT) * share:.1f}" height="6" rx="3" fill="{LOSS}"/>'
        + _text(LEFT, HEIGHT - 5, f"step {step} of {total}", opacity=0.7)
        + _text(RIGHT, HEIGHT - 5, f"{100 * share:.0f} %", "end", opacity=0.7)
    )


def _x(step: float, last: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(step / last, 1.0), 1)


def _y(value: float, low: float, high: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low), 1)


def _line(points: list, low: float, high: float, last: int, style: str) -> str:
    coordinates = " ".join(f"{_x(step, last)},{_y(value, low, high)}" for step, value in points)
    return f'<polyline fill="none" {style} stroke-linejoin="round" points="{coordinates}"/>'


def _number(value: float) -> str:
    return f"{value:.6g}" if abs(value) >= 1 else f"{value:.3g}"


def _text(x: float, y: float, text: str, anchor: str = "start", color: str = "", attributes: str = "", opacity: float = 1) -> str:
    fill = f' fill="{color}"' if color else ""
    fill += f' fill-opacity="{opacity}"' if opacity != 1 else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{fill} {attributes}>{escape(text)}</text>'
