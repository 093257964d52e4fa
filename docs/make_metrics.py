"""Write docs/metrics.md from the definitions in quell.runs.metrics and in the classes of strategies."""

from pathlib import Path

from quell import registry
from quell.runs.metrics import METRICS

HEAD = """# Metrics

One row per iteration in `metrics.jsonl`; `result.history` holds the same dictionaries. TensorBoard shows them against
environment steps, so that methods with batches of different sizes can be compared. This page is made by
`python docs/make_metrics.py`.

| name | meaning |
|---|---|
"""


OWN = """
## Metrics of single strategies

| flag | name | meaning |
|---|---|---|
"""


def page() -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in METRICS.items())
    own = "".join(
        f"| `--{kind} {choice}` | `{name}` | {text} |\n"
        for kind in registry.KINDS
        for choice, cls in registry.table(kind).items()
        for name, text in getattr(cls, "METRICS", {}).items()
    )
    return HEAD + rows + OWN + own


if __name__ == "__main__":
    Path(__file__).with_name("metrics.md").write_text(page())
