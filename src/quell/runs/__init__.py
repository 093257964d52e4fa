"""What a run leaves on disk.

folder      runs/<task>/<method>/<seed>-<time>/, its lock, and the versions it was made with
checkpoint  parameters and state, written atomically and verified
files       opening what lies in it, without following links
metrics     every metric by name; metrics.jsonl, metrics.csv and TensorBoard
record      a finished run in one small file, which tables, figures and the report are made of
"""

from quell.runs.folder import Run

__all__ = ["Run"]
