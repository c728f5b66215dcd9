"""Answers that were computed before: a file each, named by what they depend on."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from gfs.batch.job import Answer, Job
from gfs.domain.errors import InputError
from gfs.files import write_text
from gfs.version import __version__

ROOT = Path(__file__).parents[1]
SHOWING = {"cli", "report", "experiments", "sweeps", "plans"}
"""Packages that show answers; some of their modules make them."""
MAKING = ("experiments.jobs", "experiments.views", "plans.variants", "report.series", "sweeps.runs")


@cache
def code_digest(module: str) -> str:
    """A digest of the program and of the module a job stands in: an answer of other code is another answer."""
    digest = hashlib.sha256(__version__.encode())
    making = {f"gfs.{name}" for name in MAKING} | {module}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.suffix not in {".py", ".json"}:
            continue
        if parts[0] not in SHOWING or ".".join(("gfs", *parts)) in making:
            digest.update("/".join(parts).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Cache:
    """The answers in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from error

    def find(self, job: Job) -> Answer | None:
        """The answer if it is known; a file that cannot be read counts as none."""
        try:
            answer: Answer = json.loads(self._path(job).read_text(encoding="utf-8"))["answer"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return answer

    def keep(self, job: Job, answer: Answer) -> Answer:
        """Write an answer down, and give it back as it reads there."""
        text = json.dumps({"label": job.label, "identity": job.identity(), "answer": answer}, allow_nan=False)
        write_text(self._path(job), text)
        kept: Answer = json.loads(text)["answer"]
        return kept

    def _path(self, job: Job) -> Path:
        whole = json.dumps([code_digest(type(job).__module__), job.identity()], sort_keys=True)
        return self._folder / f"{hashlib.sha256(whole.encode()).hexdigest()[:32]}.json"
