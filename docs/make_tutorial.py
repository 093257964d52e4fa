"""Write docs/tutorial.md from docs/tutorial.ipynb, so that the site shows the notebook and there is one text.

python docs/make_tutorial.py
"""

import json
from pathlib import Path

HERE = Path(__file__).parent
NOTEBOOK = HERE / "tutorial.ipynb"


def cells() -> list[tuple[str, str]]:
    """(markdown or code, text) of every cell."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(NOTEBOOK.read_text())["cells"]]


def page() -> str:
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells()]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (HERE / "tutorial.md").write_text(page())
