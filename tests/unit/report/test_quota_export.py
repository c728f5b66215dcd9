"""The spot quota in the words of Kueue, Kubernetes and Slurm."""

from __future__ import annotations

import pytest
import yaml

from gfs.assembly.outside import OutsideQuota
from gfs.core.ports import QuotaRow
from gfs.domain.errors import InputError
from gfs.report.quota_export import ExportNames, export_text, fill_template

A100 = OutsideQuota("A100", 512, QuotaRow(1.0, 100, 1.0, 100.7, 411.3, peak_hour=2), 0.9, 16 * 3600.0, True)
H800 = OutsideQuota("NVIDIA H800_SXM", 64, QuotaRow(1.0, 12, 1.0, 12, 52, peak_hour=1), 0.9, 16 * 3600.0, True)
SENTENCE = "# A100: forecast peak 412 of 512 GPUs at 17:00 UTC, p 0.9: 100 GPUs for spot for 1 h\n"


def test_a_cluster_queue_has_a_flavor_for_every_model() -> None:
    text = export_text("kueue", [A100, H800], ExportNames(flavors={"A100": "a100-80gb"}))
    assert text.startswith(SENTENCE)
    queue = yaml.safe_load(text)
    assert (queue["kind"], queue["metadata"]["name"]) == ("ClusterQueue", "gfs-spot")
    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["nvidia.com/gpu"]
    assert [(f["name"], f["resources"]) for f in group["flavors"]] == [
        ("a100-80gb", [{"name": "nvidia.com/gpu", "nominalQuota": 100}]),
        ("nvidia-h800-sxm", [{"name": "nvidia.com/gpu", "nominalQuota": 12}]),
    ]


def test_a_resource_quota_has_the_sum_for_pods_of_a_class() -> None:
    quota = yaml.safe_load(export_text("resourcequota", [A100, H800], ExportNames(namespace="batch")))
    assert quota["metadata"] == {"name": "gfs-spot", "namespace": "batch"}
    assert quota["spec"]["hard"] == {"requests.nvidia.com/gpu": 112}
    assert quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] == ["gfs-spot"]
    assert "scopeSelector" not in export_text("resourcequota", [A100], ExportNames(priority_class=""))


def test_a_line_for_sacctmgr() -> None:
    names = ExportNames(name="scavenger")
    line = "sacctmgr -i modify qos where name=scavenger set GrpTRES=gres/gpu"
    assert export_text("slurm", [A100], names) == f"{SENTENCE}{line}=100\n"
    with pytest.raises(InputError, match="'NVIDIA H800_SXM' is no type of a gres"):
        export_text("slurm", [A100, H800], names)
    named = ExportNames(name="scavenger", flavors={"NVIDIA H800_SXM": "h800"})
    assert export_text("slurm", [A100, H800], named).splitlines()[-1] == f"{line}:A100=100,gres/gpu:h800=12"
    typed = ExportNames(name="scavenger", flavors={"A100": "a100"})
    assert export_text("slurm", [A100], typed).splitlines()[-1] == f"{line}:a100=100"


QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: batch}
spec:
  cohortName: all
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: a100
      resources: [{name: cpu, nominalQuota: 640}, {name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 4}]
    - name: other
      resources: [{name: cpu, nominalQuota: 9}, {name: nvidia.com/gpu, nominalQuota: 3}]
---
kind: LocalQueue
"""


def test_in_a_manifest_of_ones_own_only_the_numbers_change() -> None:
    filled = fill_template("kueue", QUEUE, "queue.yaml", [A100], ExportNames())
    before, after = (list(yaml.safe_load_all(text)) for text in (QUEUE, filled))
    before[0]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"] = 100
    assert after == before
    assert filled.startswith(SENTENCE)
    own = "kind: ResourceQuota\nspec: {hard: {pods: 5}}\n"
    quota = yaml.safe_load(fill_template("resourcequota", own, "q.yaml", [A100], ExportNames()))
    assert quota["spec"]["hard"] == {"pods": 5, "requests.nvidia.com/gpu": 100}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (QUEUE.replace("name: a100", "name: a"), "no flavor a100 with nvidia.com/gpu: name flavors with --flavor"),
        ("kind: LocalQueue", "0 objects of kind ClusterQueue; there must be one"),
        ("kind: ClusterQueue\nspec: 5", "is no whole ClusterQueue"),
        ("a: [", "not YAML"),
    ],
)
def test_a_manifest_that_does_not_fit_is_told(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        fill_template("kueue", text, "queue.yaml", [A100], ExportNames())
    assert str(error.value).startswith("queue.yaml: ")


@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("slurm", ExportNames(name="a b")),
        ("slurm", ExportNames(name="q;reboot")),
        ("kueue", ExportNames(name="Upper")),
        ("kueue", ExportNames(flavors={"A100": "x: y"})),
        ("resourcequota", ExportNames(namespace="a/b")),
        ("resourcequota", ExportNames(priority_class='x"]')),
    ],
)
def test_names_that_could_be_taken_for_something_else_are_refused(format: str, names: ExportNames) -> None:
    with pytest.raises(InputError, match=r"--(name|flavor|namespace|priority-class) "):
        names.check(format)
