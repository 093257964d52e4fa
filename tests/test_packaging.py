"""What goes to the package index: a page that renders, a lean archive, and metadata that point nowhere false."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import quell

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source archive and wheel, made without a network."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    code = f"import hatchling.build as b; b.build_sdist({str(out)!r}); b.build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    return out


def test_the_source_archive_is_lean(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "src/quell/api.py", "src/quell/report/assets/page.html"} <= names
    assert not [name for name in names if name.startswith(("results", "docs", "runs", ".ci", "site"))]
    assert archive.stat().st_size < 1e6


def test_the_wheel_has_everything_that_is_read_at_run_time(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name and ".egg-info" not in name} <= names
    assert "quell/py.typed" in names


def test_readme_renders() -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    page = markdown.render((ROOT / "README.md").read_text())
    assert page is not None
    assert page.count("<h2") >= 4
    assert "<table>" in page
    assert "<code" in page


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^version: {re.escape(quell.__version__)}$", citation, re.MULTILINE)
    assert PROJECT["version"] == quell.__version__


def test_no_invented_home() -> None:
    """Addresses that pages and metadata name are of the paper and others' documentation; ours has none yet."""
    known = {"arxiv.org", "gymnasium.farama.org", "docs.ray.io"}
    for page in [ROOT / "README.md", ROOT / "CITATION.cff", ROOT / "pyproject.toml", *ROOT.glob("docs/*.md")]:
        assert set(re.findall(r"https?://([\w.-]+)", page.read_text())) <= known, page.name


def test_what_the_tests_and_the_site_need_is_in_the_dev_extra() -> None:
    dev = " ".join(PROJECT["optional-dependencies"]["dev"])
    for name in ("all", "docs", "hatchling", "readme-renderer", "pytest", "mypy", "ruff"):
        assert name in dev
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    wanted = [*PROJECT["dependencies"], *(x for several in PROJECT["optional-dependencies"].values() for x in several)]
    names = {re.split(r"[\[><=~ ]", one)[0].lower().replace("_", "-") for one in wanted} - {"quell"}
    assert names <= pinned, names - pinned


def test_make_run_installs_what_readmes_next_commands_need() -> None:
    (extras,) = re.findall(
        r"^\.venv/core:.*?'\.\[([\w,]+)\]'", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL
    )
    assert {"plot", "report", "video"} <= set(extras.split(","))
