"""What goes to the package index: a page that renders, a lean archive, and metadata that point nowhere false."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import quell
from quell.errors import EXTRAS, NEWER_PYTHON

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


def test_the_changelog_begins_with_this_version() -> None:
    """Unreleased, or with the day of its release."""
    first = re.search(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == quell.__version__


def test_templates_are_understood_where_they_are_used() -> None:
    yaml = pytest.importorskip("yaml")
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= form.keys()
            ids = [part["id"] for part in form["body"]]
            assert len(ids) == len(set(ids))
            assert all({"label"} <= part["attributes"].keys() for part in form["body"])
    assert "quell doctor" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()


@pytest.mark.parametrize("started", ["['quell.exe', 'doctor']", "[r'C:\\\\Scripts\\\\quell.exe']", "['-m', 'doctor']"])
def test_windows_is_refused_in_one_line(started: str) -> None:
    """There, `fcntl` and `resource` would be the first to be missed, in a traceback."""
    code = f"import sys; sys.platform = 'win32'; sys.argv = {started}; sys.modules['fcntl'] = None; import quell.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("quell: error: quell runs on Linux and macOS, not on Windows itself")
    assert done.stderr.count("\n") == 1
    script = "import sys; sys.platform = 'win32'; import quell"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: quell runs on Linux and macOS")


def test_no_invented_home() -> None:
    """Addresses that pages and metadata name are of the paper and others' documentation; ours has none yet."""
    known = {"arxiv.org", "gymnasium.farama.org", "docs.ray.io"}
    for page in [ROOT / "README.md", ROOT / "CITATION.cff", ROOT / "pyproject.toml", *ROOT.glob("docs/*.md")]:
        assert set(re.findall(r"https?://([\w.-]+)", page.read_text())) <= known, page.name


HEAVY = ("brax", "playground")
"""Extras that nothing here is tested with: what they bring is larger than all the rest."""


def test_the_dev_extra_has_all_that_tests_and_site_need() -> None:
    dev = " ".join(PROJECT["optional-dependencies"]["dev"])
    for name in ("all", "docs", "hatchling", "readme-renderer", "pytest", "mypy", "ruff"):
        assert name in dev
    extras = {name: one for name, one in PROJECT["optional-dependencies"].items() if name not in HEAVY}
    wanted = [*PROJECT["dependencies"], *(one for several in extras.values() for one in several)]
    names = {canonical(re.split(r"[\[><=~; ]", one)[0]) for one in wanted} - {"quell"}
    assert names <= pins("constraints.txt").keys(), names - pins("constraints.txt").keys()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    """Package -> version, and where it is needed, as a file has it."""
    found = re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\\\n]+)", (ROOT / file).read_text(), re.MULTILINE)
    assert len(found) == len(dict(found)), "a package is named twice"
    return {canonical(name): told.strip() for name, told in found}


def test_make_installs_pinned_and_hashed_packages() -> None:
    """`make pins` writes all three; what is changed by hand in one of them alone is noticed."""
    dev, core = pins("requirements/dev.txt"), pins("requirements/core.txt")
    assert dev == pins("constraints.txt")
    assert {name: told.partition(" ")[0] for name, told in core.items()}.items() <= {
        name: told.partition(" ")[0] for name, told in dev.items()
    }.items()
    assert {"hatchling", "editables", "matplotlib", "jinja2", "imageio-ffmpeg"} <= core.keys()
    for name in ("dev", "core"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        for block in re.split(r"\n(?=\w)", text[text.index("\n", text.index("make pins")) + 1 :]):
            assert re.search(r"\\\n    --hash=sha256:[0-9a-f]{64}", block), block[:80]
        assert "://" not in text
        assert "--index" not in text
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes" in makefile
    assert "--no-deps --no-build-isolation --editable" in makefile


def test_extras_are_empty_where_messages_say_so() -> None:
    """Where a package is not ready-made, `quell[all]` leaves it out, and what needs it says what to do."""
    requirement = pytest.importorskip("packaging.requirements").Requirement
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"all", "docs", "dev"}
    for extra in EXTRAS:
        for minor in range(11, 16):
            wanted = [requirement(one) for one in extras[extra]]
            here = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0"}
            left = [one for one in wanted if one.marker is None or one.marker.evaluate(here)]
            first, _ = NEWER_PYTHON.get(extra, ((4,), ""))
            assert bool(left) == ((3, minor) < first), f"{extra} on Python 3.{minor}"
    page = (ROOT / "docs/install.md").read_text()
    for extra, (first, _) in NEWER_PYTHON.items():
        newest = f"{first[0]}.{first[1] - 1}"
        assert re.search(rf"^\| `{extra}` \|.*{re.escape(newest)}", page, re.MULTILINE), f"install.md on {extra}"


def test_make_run_installs_what_readmes_next_commands_need() -> None:
    (line,) = re.findall(r".*requirements/core\.txt$", (ROOT / "Makefile").read_text(), re.MULTILINE)[-1:]
    assert {"plot", "report", "video"} <= set(re.findall(r"--extra (\w+)", line))


def test_another_python_than_that_of_the_environment_is_not_used_in_silence(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 3.10\n")
    python.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "PYTHON"}

    def make(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", "-n", *words], cwd=tmp_path, env={**own, **more}, capture_output=True, text=True)

    for asked in (make("run", f"PYTHON={sys.executable}"), make("run", PYTHON=sys.executable)):
        assert asked.returncode == 2
        assert f".venv has Python 3.10, not {sys.executable}: make clean, then again" in asked.stderr
    assert make("clean", f"PYTHON={sys.executable}").stdout.startswith("rm -rf")
    assert "make clean" not in make("run").stderr
