"""What the site needs beyond mkdocs: pages may link to any file of the repository, and it comes along.

A link that leaves docs/ (results, examples, tests) leads to a copy in the site: Markdown as a page, source text as a
page of code, anything else as it is. The links of what comes along are followed too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()(?![a-z]+:|#|/)([^)#\s]+)")
CELL, NAME, JOINT = re.compile(r"<td.*?</td>", re.DOTALL), re.compile(r"<code>[^<]{20,}"), re.compile(r"(?<=\w)[_/]")
FETCHED = "https://unpkg.com/iframe-worker/shim"
CODE = {".py": "python", ".sh": "bash", ".yaml": "yaml"}


def on_files(files: Files, config: Any) -> Files:
    """Add all that pages link to, however far."""
    waiting = [ROOT / "docs" / file.src_uri for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        for path in linked(waiting.pop()):
            if path not in seen:
                seen.add(path)
                waiting += [path] if path.suffix == ".md" else []
                if "docs" not in path.relative_to(ROOT).parts[:1]:
                    files.append(brought(path, config))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are in the repository, to where the copies lie."""
    own = page.file.src_uri
    here = ROOT / own if (ROOT / own).exists() else ROOT / "docs" / own
    if own.endswith(".md") and not here.exists():  # a page of code
        return markdown

    def moved(match: re.Match[str]) -> str:
        target = (here.parent / match[2]).resolve()
        return match[1] + (
            posixpath.relpath(place(target), posixpath.dirname(own) or ".") if target.exists() else match[2]
        )

    return LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Long names in cells of tables may be broken after an underscore or a slash."""
    return CELL.sub(lambda cell: NAME.sub(lambda name: JOINT.sub(r"\g<0><wbr>", name[0]), cell[0]), html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The theme would fetch from the network what lets the search work on pages opened from disk."""
    return output.replace(FETCHED, get_relative_url("from-disk.js", page.url))


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    return output.replace(FETCHED, "/from-disk.js")


def linked(page: Path) -> list[Path]:
    """Files of the repository that a page links to."""
    found = [(page.parent / target).resolve() for _, target in LINK.findall(page.read_text())]
    return [path for path in found if path.is_file() and path.is_relative_to(ROOT)]


def place(path: Path) -> str:
    """Where a file of the repository lies in the site's sources."""
    own = path.relative_to(ROOT).as_posix().removeprefix("docs/")
    return f"{own}.md" if path.suffix in CODE else own


def brought(path: Path, config: Any) -> File:
    if path.suffix not in CODE:
        return File.generated(config, place(path), abs_src_path=str(path))
    title = path.relative_to(ROOT).as_posix()
    content = f"# {title}\n\n````{CODE[path.suffix]}\n{path.read_text()}````\n"
    return File.generated(config, place(path), content=content)
