"""The spot quota in the words of other schedulers: Kueue, Kubernetes, Slurm (docs/guides/export-the-quota.md)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gfs.assembly.outside import OutsideQuota
from gfs.domain.errors import InputError

FORMATS = ("kueue", "resourcequota", "slurm")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QOS = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
KINDS = {"kueue": "ClusterQueue", "resourcequota": "ResourceQuota"}


@dataclass(frozen=True, slots=True)
class ExportNames:
    """What things are called over there."""

    name: str = "gfs-spot"
    """Of the ClusterQueue, ResourceQuota or QOS."""
    namespace: str = "default"
    """Of the ResourceQuota."""
    priority_class: str = "gfs-spot"
    """Whose pods the ResourceQuota counts; '': all of the namespace."""
    resource: str = "nvidia.com/gpu"
    flavors: Mapping[str, str] = field(default_factory=dict)
    """GPU model -> ResourceFlavor of Kueue, or type of the gres of Slurm."""

    def flavor(self, model: str) -> str:
        """Lower case, and '-' for what a name of Kubernetes cannot have, unless it is given."""
        return self.flavors.get(model) or re.sub("[^a-z0-9.-]+", "-", model.lower()).strip("-.") or "gpu"

    def check(self, format: str) -> None:
        """`InputError` for a name that cannot be one over there: nothing of it may be taken for a command."""
        rule, example = (_QOS, "scavenger") if format == "slurm" else (_NAME, "gfs-spot")
        for option, text in (("--name", self.name), *(("--flavor", name) for name in self.flavors.values())):
            if not rule.fullmatch(text):
                raise InputError(f"{option} {text!r}: {format} has no such names; write one such as {example}")
        for option, text in (("--namespace", self.namespace), ("--priority-class", self.priority_class)):
            if text and not _NAME.fullmatch(text):
                raise InputError(f"{option} {text!r}: not a name of Kubernetes")


def export_text(format: str, quotas: Sequence[OutsideQuota], names: ExportNames) -> str:
    """The file for another scheduler, with a comment that says where the numbers come from."""
    comments = "".join(f"# {quota.text()}\n" for quota in quotas)
    if format == "slurm":
        return f"{comments}{_sacctmgr(quotas, names)}\n"
    return comments + (_cluster_queue(quotas, names) if format == "kueue" else _resource_quota(quotas, names))


def _sacctmgr(quotas: Sequence[OutsideQuota], names: ExportNames) -> str:
    """One model: all GPUs; several: each by its type, which AccountingStorageTRES must then list."""
    if len(quotas) == 1 and not names.flavors:
        limits = f"gres/gpu={quotas[0].gpus}"
    else:
        types = [names.flavors.get(quota.gpu_model, quota.gpu_model) for quota in quotas]
        if strange := [name for name in types if not _QOS.fullmatch(name)]:
            raise InputError(f"{strange[0]!r} is no type of a gres: say what it is called with --flavor MODEL=TYPE")
        limits = ",".join(f"gres/gpu:{name}={quota.gpus}" for name, quota in zip(types, quotas, strict=True))
    words = ["sacctmgr", "-i", "modify", "qos", "where", f"name={names.name}", "set", f"GrpTRES={limits}"]
    return shlex.join(words)


def _cluster_queue(quotas: Sequence[OutsideQuota], names: ExportNames) -> str:
    flavors = "".join(
        f"""\
    - name: {names.flavor(quota.gpu_model)}
      resources:
      - name: {names.resource}
        nominalQuota: {quota.gpus}
"""
        for quota in quotas
    )
    return f"""\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: {names.name}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: ["{names.resource}"]
    flavors:
{flavors}"""


def _resource_quota(quotas: Sequence[OutsideQuota], names: ExportNames) -> str:
    """A ResourceQuota knows no models: it has the sum."""
    scope = f"""\
  scopeSelector:
    matchExpressions:
    - scopeName: PriorityClass
      operator: In
      values: ["{names.priority_class}"]
"""
    return f"""\
apiVersion: v1
kind: ResourceQuota
metadata:
  name: {names.name}
  namespace: {names.namespace}
spec:
  hard:
    requests.{names.resource}: {sum(quota.gpus for quota in quotas)}
{scope if names.priority_class else ""}"""


def fill_template(format: str, text: str, where: str, quotas: Sequence[OutsideQuota], names: ExportNames) -> str:
    """A manifest of one's own, as it is, with the numbers of this quota in it."""
    try:
        import yaml
    except ImportError as error:
        told = "to read YAML more packages are needed: pip install 'gfs-scheduler[live]'"
        raise InputError(f"--template: {told} ({error})") from None
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        at = f" (line {place.line + 1})" if place is not None else ""
        raise InputError(f"{where}: not YAML{at}; write it with kubectl get -o yaml") from None
    ours = [each for each in documents if isinstance(each, dict) and each.get("kind") == KINDS[format]]
    if len(ours) != 1:
        raise InputError(f"{where}: {len(ours)} objects of kind {KINDS[format]}; there must be one")
    try:
        _fill(format, ours[0], quotas, names)
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{where}: is no whole {KINDS[format]}: spec is not as Kubernetes has it") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    comments = "".join(f"# {quota.text()}\n" for quota in quotas)
    return comments + str(yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=False))


def _fill(format: str, document: dict[str, Any], quotas: Sequence[OutsideQuota], names: ExportNames) -> None:
    if format == "resourcequota":
        document["spec"]["hard"][f"requests.{names.resource}"] = sum(quota.gpus for quota in quotas)
        return
    left = {names.flavor(quota.gpu_model): quota.gpus for quota in quotas}
    for group in document["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"] == names.resource and flavor["name"] in left:
                    resource["nominalQuota"] = left.pop(flavor["name"])
    if left:
        raise InputError(
            f"no flavor {', '.join(sorted(left))} with {names.resource}: name flavors with --flavor MODEL=FLAVOR,"
            " or leave models out with --gpu-model"
        )
