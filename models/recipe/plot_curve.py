"""Draws the curve of a training run: DIR/log.jsonl -> an SVG picture.

    python plot_curve.py DIR/log.jsonl curve.svg
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, MARGIN = 720, 360, 48
TOP_DEGREES = 60
TRAINING_ENTRIES = 5  # of the log, for one point
COLOURS = ("#777777", "#1b6ca8", "#d1495b", "#2e8b57", "#8d5a97", "#c98a1b")


def read(path):
    """{name: [(step, degrees)]}: the training's error, of pictures of all sizes, and validation's by size."""
    curves, chords = {"training": []}, []
    for line in pathlib.Path(path).read_text().splitlines():
        entry = json.loads(line)
        if "chord" in entry:
            chords.append(entry["chord"])
        if len(chords) == TRAINING_ENTRIES:
            chord = sum(chords) / len(chords)
            curves["training"].append((entry["step"], math.degrees(2 * math.asin(min(chord / 2, 1)))))
            chords = []
        for size, (error, _) in entry.get("validation", {}).items():
            curves.setdefault(size, []).append((entry["step"], error))
    return curves


def draw(curves):
    last = max((step for points in curves.values() for step, _ in points), default=1)
    x = lambda step: MARGIN + (WIDTH - 2 * MARGIN) * step / last
    y = lambda degrees: HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(degrees, TOP_DEGREES) / TOP_DEGREES
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for degrees in range(0, TOP_DEGREES + 1, 10):
        parts.append(f'<path d="M{MARGIN} {y(degrees)}H{WIDTH - MARGIN}" stroke="#ddd"/>'
                     f'<text x="{MARGIN - 8}" y="{y(degrees) + 4}" text-anchor="end">{degrees}°</text>')
    for part in range(5):
        step = round(last * part / 4)
        parts.append(f'<text x="{x(step)}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{step}</text>')
    for number, (size, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x(step):.1f},{y(error):.1f}" for step, error in points)
        marks = "".join(f'<circle cx="{x(step):.1f}" cy="{y(error):.1f}" r="3" fill="{colour}"/>'
                        for step, error in points if size != "training")
        parts.append(f'{marks}<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{WIDTH - MARGIN - 90}" y="{MARGIN + 16 * number}" fill="{colour}">{size}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">step</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(draw(read(sys.argv[1])))


if __name__ == "__main__":
    main()
