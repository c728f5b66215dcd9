"""A real Prometheus on loopback with a past that is made up: what kube-state-metrics would have told it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import needs
from bench import binaries
from bench.bench import free_ports
from bench.processes import _die_with_parent

STEP = 300
Labels = Mapping[str, str]


def pod_series(
    namespace: str,
    pod: str,
    *,
    gpus: float,
    node: str = "",
    cls: str = "gfs-hp",
    phase: str = "Running",
    instance: str = "ksm-0",
    labels: Labels | None = None,
    owner: str = "",
    times: Mapping[str, float] | None = None,
) -> list[tuple[str, Labels, float]]:
    """The series of a pod: metric, labels and value. `times`: kube_pod_created and others like it."""
    common = {"namespace": namespace, "pod": pod, "uid": f"uid-{namespace}-{pod}", "instance": instance}
    asked = {**common, "node": node, "container": "main", "resource": "nvidia_com_gpu", "unit": "integer"}
    made_by = {"created_by_kind": "Job" if owner else "ReplicaSet", "created_by_name": owner or "<none>"}
    phases = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    return [
        ("kube_pod_container_resource_requests", asked, gpus),
        ("kube_pod_container_resource_requests", {**asked, "resource": "cpu", "unit": "core"}, 16.0),
        ("kube_pod_info", {**common, "node": node, "priority_class": cls, **made_by}, 1.0),
        *(("kube_pod_status_phase", {**common, "phase": each}, float(each == phase)) for each in phases),
        *([("kube_pod_labels", {**common, **labels}, 1.0)] if labels else []),
        *((name, common, at) for name, at in (times or {}).items()),
    ]


def node_series(node: str, model: str = "", gpus: int = 0) -> list[tuple[str, Labels, float]]:
    """The series of a node."""
    info = [("kube_node_info", {"node": node, "instance": "ksm-0"}, 1.0)]
    label = {"node": node, "instance": "ksm-0", "label_nvidia_com_gpu_product": model}
    there = [
        ("kube_node_status_allocatable", {"node": node, "resource": resource, "instance": "ksm-0"}, amount)
        for resource, amount in (("nvidia_com_gpu", float(gpus)), ("cpu", 64.0))
    ]
    return [*info, *([("kube_node_labels", label, 1.0)] if model else []), *(there if gpus else [])]


class Past:
    """Samples, every five minutes."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def add(self, series: Iterable[tuple[str, Labels, float]], first: int, end: int) -> None:
        """These series had these values in the steps from `first` on, before `end`.

        A sample counts for five minutes, so each is a second older than the moment that is asked for.
        """
        for name, labels, value in series:
            text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
            self._samples.setdefault((name, text), []).extend((step * STEP - 1, value) for step in range(first, end))

    def write(self, file: Path) -> None:
        """In the OpenMetrics format."""
        with file.open("w") as out:
            named = ""
            for (name, labels), samples in sorted(self._samples.items()):
                if name != named:
                    out.write(f"# TYPE {name} gauge\n")
                    named = name
                out.writelines(f"{name}{{{labels}}} {value:.15g} {at}\n" for at, value in sorted(samples))
            out.write("# EOF\n")


@contextmanager
def serving(past: Past, folder: Path, rule_file: Path | None = None, *options: str) -> Iterator[str]:
    """The address of a Prometheus that knows this past, and these rules. It stops at the end."""
    found = needs.bench_programs(binaries.WELCOME)
    past.write(folder / "past.txt")
    blocks = ["tsdb", "create-blocks-from", "openmetrics", "--quiet", str(folder / "past.txt"), str(folder / "data")]
    subprocess.run([found["promtool"], *blocks], check=True, capture_output=True)
    rules = f"rule_files: ['{rule_file}']\n" if rule_file is not None else ""
    (folder / "prometheus.yml").write_text(f"scrape_configs: []\n{rules}")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    words += ["--storage.tsdb.retention.time=10y", f"--web.listen-address={address}", *options]
    with subprocess.Popen(
        [found["prometheus"], *words], stderr=subprocess.PIPE, text=True, preexec_fn=_die_with_parent
    ) as server:
        try:
            assert server.stderr is not None
            lines = []
            for line in server.stderr:
                lines.append(line)
                if "Server is ready to receive web requests" in line:
                    break
            else:
                raise AssertionError("".join(lines))
            yield f"http://{address}"
        finally:
            server.kill()
