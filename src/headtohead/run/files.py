"""Names of the files and folders in the store. Other modules take them from here."""

from __future__ import annotations

# folders of the store
RUNS = "runs"
STUDIES = "studies"
SEARCHES = "searches"
AUDITS = "audits"
PUBLISHED = "published"  # results of published studies, each in one file
TRACKING = "tracking"
JOBS = "jobs"  # commands that the web page started
UPLOADS = "uploads"  # texts that were given to the web page

# runs/<id>/
RUN = "run.json"
ENVIRONMENT = "env.json"
METRICS = "metrics.jsonl"
TIMES = "times.json"
TOKENIZER = "tokenizer.json"
ITEMS = "items.npz"
CLUSTERS = "clusters.json"  # instead of items, in a run that was kept without them
WEIGHTS = "model.safetensors"
RESULT = "result.json"
FAILURE = "failed.json"
MEASURES = "measures.json"
CODE = "code"
SNAPSHOTS = "snapshots"
CHECKPOINT = "checkpoint.safetensors"
OLD_CHECKPOINT = "checkpoint.old.safetensors"
BEST_WEIGHTS = "best.safetensors"  # while a run that keeps its best weights is trained
CURVES = "curves.png"
LOCK = "LOCK"

# studies/<name>/ and searches/<id>/
STUDY = "study.json"
PLAN = "plan.json"
LOCKED = "locked.json"  # the plan that `h2h plan --lock` fixed before the first run
PROGRESS = "progress.json"  # while the study is trained
REPORT = "report.html"
SEARCH = "search.json"


def snapshot(step: int) -> str:
    """The file of the weights after `step` updates, in the folder of snapshots."""
    return f"step-{step:08d}.safetensors"
