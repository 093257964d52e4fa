"""A stranger's first minutes, timed: an empty environment, pip, one command, a film that opens.

    python benchmarks/first_minutes.py [--python python3.12]

Then the comparison that `make run` makes, and its processor time; that is no part of these minutes. Everything happens
in a folder of its own, which is removed; pip and quell begin with empty caches. Exit code 1 if the minutes are more
than three.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 180.0
OPEN = """
import sys
from PIL import Image
with Image.open(sys.argv[1]) as film:
    print(film.n_frames, "pictures of", *film.size)
"""


def processor() -> float:
    """Processor time of all that was started here and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="whose environment is made")
    python = parser.parse_args().python
    seconds: dict[str, float] = {}
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        bin, fresh = Path(folder) / "venv" / "bin", {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        steps = {
            "an empty environment": [python, "-m", "venv", f"{folder}/venv"],
            "pip install": [bin / "pip", "install", "-q", "--disable-pip-version-check", f"{ROOT}[plot,report,video]"],
            "train CartPole-v1": [bin / "quell", "train", "CartPole-v1", "--steps", "100000"],
            "film it": [bin / "quell", "play", "runs/gym-CartPole-v1", "--video", "pole.gif"],
            "film zoo:halfcheetah": [bin / "quell", "play", "zoo:halfcheetah", "--video", "cheetah.gif"],
            "open it": [bin / "python", "-c", OPEN, "cheetah.gif"],
        }
        for name, words in steps.items():
            began = time.perf_counter()
            subprocess.run(list(map(str, words)), cwd=folder, env=fresh, check=True)
            seconds[name] = round(time.perf_counter() - began, 1)
            print(f"-- {name}: {seconds[name]} s", flush=True)
        load = [before, os.getloadavg()[0]]
        compare = [bin / "python", ROOT / "examples" / "compare.py"]
        began, spent = time.perf_counter(), processor()
        subprocess.run(compare, cwd=folder, env=fresh, check=True)
        compared = {"seconds": round(time.perf_counter() - began, 1), "processor": round(processor() - spent, 1)}
    total = round(sum(seconds.values()), 1)
    facts = {"seconds": seconds, "total": total, "cores": os.cpu_count(), "load": load, "compare": compared}
    print(json.dumps(facts))
    return int(total > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
