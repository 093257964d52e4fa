"""Write docs/metrics.md from the definitions in quell.metrics."""

from pathlib import Path

from quell.runs.metrics import METRICS

HEAD = """# Metrics

One row per iteration in `metrics.jsonl`; `result.history` holds the same dictionaries. TensorBoard shows them against
environment steps, so that methods with batches of different sizes can be compared. This page is made from
`quell.metrics.METRICS` by `python docs/make_metrics.py`.

| name | meaning |
|---|---|
"""


def page() -> str:
    return HEAD + "".join(f"| `{name}` | {text} |\n" for name, text in METRICS.items())


if __name__ == "__main__":
    Path(__file__).with_name("metrics.md").write_text(page())
