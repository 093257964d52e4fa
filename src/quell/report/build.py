"""Puts the page together: one file that needs no other."""

import base64
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from quell.errors import UsageError, require
from quell.report import content
from quell.report.series import all_series
from quell.report.sources import gather
from quell.runs.find import Standing
from quell.runs.record import Record
from quell.stats import POWER

SCRIPTS = ("numbers.js", "curves.js", "panel.js", "controls.js", "variance.js")
TableMaker = Callable[[Mapping[Path, Sequence[Record]]], list[tuple[str, str]]]
"""Results folder -> its runs; returns titles and tables, these as safe HTML."""
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}


def build(
    paths: Sequence[Path],
    *,
    title: str,
    videos: Sequence[Path] = (),
    order: content.Order = (),
    out: Path = Path("report.html"),
    tables: TableMaker | None = None,
    newest: Standing | None = None,
) -> str:
    """The page as text; `tables` makes tables of the results folders among the paths.

    `newest` is the run to name first, if there is one; links to runs lead from where the page will lie (`out`).
    """
    require("report", "`quell report`")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    sources = gather(paths)
    series = all_series(sources)
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":"), "allow_nan": False}
    return page.from_string(_asset("page.html")).render(
        title=title,
        newest=content.sentence(newest) if newest else "",
        style=Markup(_asset("style.css")),
        script=Markup("\n".join(map(_asset, SCRIPTS))),
        data=content.chart_data(sources, series, order, newest),
        headline=content.headline(sources, series, order),
        power=POWER,
        tables=[(heading, Markup(html)) for heading, html in tables(sources.campaigns)] if tables else [],
        runs=content.run_rows(sources, series, out),
        settings=content.settings(sources, series),
        videos=[_video(path) for path in videos],
    )


def check_videos(videos: Sequence[Path]) -> None:
    """Complain before anything is read."""
    for path in videos:
        if path.suffix not in VIDEOS:
            raise UsageError(f"--video takes {', '.join(VIDEOS)} files, got {str(path)!r}")
        if not path.is_file():
            raise UsageError(f"{str(path)!r} does not exist")


def _video(path: Path) -> dict[str, str]:
    kind = VIDEOS[path.suffix]
    poster = "" if kind == "image/gif" else _poster(path)
    return {"name": path.stem, "kind": kind, "source": _inline(path.read_bytes(), kind), "poster": poster}


def _poster(path: Path) -> str:
    """A typical frame of the film's first second, as a picture; nothing where the extra video is missing."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        return ""
    read = [get_ffmpeg_exe(), *["-loglevel", "quiet", "-nostdin", "-i"], f"file:{path.resolve()}"]
    take = ["-vf", "thumbnail=25", "-frames:v", "1", "-c:v", "mjpeg", "-f", "image2pipe", "-"]
    picture = subprocess.run([*read, *take], capture_output=True).stdout
    return _inline(picture, "image/jpeg") if picture else ""


def _inline(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _asset(name: str) -> str:
    return (files("quell.report") / "assets" / name).read_text(encoding="utf-8")
