"""A small client of the API server for the bench: the standard library, one connection a thread, no cache.

It is not the controller's client: what the tests see, they see with other eyes than what they test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gfs.domain.errors import GfsError

Manifest = dict[str, Any]
"""An object of the API as JSON has it."""

GROUPS = {
    "nodes": "api/v1",
    "namespaces": "api/v1",
    "pods": "api/v1",
    "events": "api/v1",
    "serviceaccounts": "api/v1",
    "jobs": "apis/batch/v1",
    "deployments": "apis/apps/v1",
    "replicasets": "apis/apps/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "priorityclasses": "apis/scheduling.k8s.io/v1",
    "podgroups": "apis/scheduling.k8s.io/v1alpha2",
    "podgroups.scheduling.x-k8s.io": "apis/scheduling.x-k8s.io/v1alpha1",
    "clusterroles": "apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "apis/rbac.authorization.k8s.io/v1",
    "roles": "apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "apis/rbac.authorization.k8s.io/v1",
    "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
}
"""The kinds that the bench speaks of, and where the API server has them."""
PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
SECONDS = 600.0
"""How long an answer may take, and by default how long `wait` waits: a bound against hanging for ever."""


class ApiError(GfsError):
    """The API server refused; `code` is its HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


def path(kind: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """Where an object or a collection is: path('pods', 'default', 'a', 'binding')."""
    plural = kind.partition(".")[0]
    parts = [GROUPS[kind], *(("namespaces", namespace) if namespace else ()), plural, *(p for p in (name, sub) if p)]
    return "/" + "/".join(quote(part, safe="/") for part in parts)


@dataclass(frozen=True, slots=True)
class Client:
    """Talks to one API server as one user."""

    host: str
    port: int
    ca_file: Path
    token: str = field(repr=False)
    user: str = ""
    """Whom to act as (impersonation); empty: the owner of the token."""
    _local: threading.local = field(default_factory=threading.local, repr=False, compare=False)
    _open: list[http.client.HTTPSConnection] = field(default_factory=list, repr=False, compare=False)

    def acting_as(self, user: str) -> Client:
        """The same server as another user, for example system:serviceaccount:gfs-system:gfs-scheduler."""
        return replace(self, user=user, _local=threading.local())  # whoever closes one closes all

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._open:
            connection.close()
        self._open.clear()

    def request(self, method: str, where: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Send one request and return the answer as JSON; raises ApiError if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connect()
                self._open.append(connection)
            try:
                connection.request(method, where, data, self._headers(content_type))
                answer = connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):  # the server closed an idle connection: once more
                connection.close()
                self._local.connection = None
                if attempt == 2:
                    raise
        if answer.status >= 400:
            raise ApiError(answer.status, _reason(text))
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def get(self, where: str) -> Any:
        """Read an object or a list."""
        return self.request("GET", where)

    def exists(self, where: str) -> bool:
        """Whether there is such an object."""
        try:
            self.get(where)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        return True

    def items(self, kind: str, namespace: str = "", **selectors: str) -> list[Manifest]:
        """The objects of a kind, each with its kind; selectors: labelSelector, fieldSelector."""
        return self._list(kind, namespace, selectors)[0]

    def create(self, kind: str, manifest: Manifest, dry_run: bool = False) -> Manifest:
        """Create an object where its manifest says."""
        where = path(kind, manifest["metadata"].get("namespace", "")) + ("?dryRun=All" if dry_run else "")
        created: Manifest = self.request("POST", where, manifest)
        return created

    def patch(self, where: str, change: Manifest, how: str = "merge") -> Manifest:
        """Change an object; how: merge or strategic."""
        changed: Manifest = self.request("PATCH", where, change, PATCHES[how])
        return changed

    def delete(self, where: str, **options: Any) -> None:
        """Delete an object or a whole collection; one that is not there is as good as deleted."""
        try:
            self.request("DELETE", where, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ApiError as error:
            if error.code != 404:
                raise

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.request("POST", path("pods", namespace, pod, "binding"), binding)

    def watch(
        self, kind: str, version: str, namespace: str = "", seconds: float = 300.0, **selectors: str
    ) -> Iterator[Manifest]:
        """What happens to a collection from a resource version on, until `seconds` are over or the server ends it."""
        for line in self.watch_lines(kind, version, namespace, seconds, **selectors):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ApiError(event["object"].get("code", 500), event["object"].get("message", "watch ended"))
            yield event

    def watch_lines(
        self, kind: str, version: str, namespace: str = "", seconds: float = 300.0, **selectors: str
    ) -> Iterator[bytes]:
        """The lines of such a watch as the server sends them."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", **selectors}
        connection = self._connect(seconds)
        deadline = time.monotonic() + seconds
        try:
            connection.request("GET", f"{path(kind, namespace)}?{urlencode(query)}", None, self._headers(""))
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(answer.status, _reason(answer.read()))
            for line in iter(answer.readline, b""):
                yield line
                if time.monotonic() >= deadline:
                    return
                connection.sock.settimeout(max(0.01, deadline - time.monotonic()))
        except TimeoutError:
            return
        finally:
            connection.close()

    def wait(
        self,
        kind: str,
        condition: Callable[[Mapping[str, Manifest]], object],
        namespace: str = "",
        seconds: float = SECONDS,
        **selectors: str,
    ) -> dict[str, Manifest]:
        """Wait, by watching, until the collection (name -> object) meets the condition; raises TimeoutError."""
        deadline = time.monotonic() + seconds
        items, version = self._list(kind, namespace, selectors)
        present = {item["metadata"]["name"]: item for item in items}
        while not condition(present):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{kind} in {namespace or 'the cluster'} after {seconds:g} s: {summary(present)}")
            for event in self.watch(kind, version, namespace, left, **selectors):
                found, version = event["object"], event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                if event["type"] == "DELETED":
                    present.pop(found["metadata"]["name"], None)
                else:
                    present[found["metadata"]["name"]] = found
                if condition(present):
                    return present
        return present

    def list_with_version(self, kind: str) -> tuple[list[Manifest], str]:
        """All objects of a kind and the resource version from which to watch on."""
        return self._list(kind, "", {})

    def _list(self, kind: str, namespace: str, selectors: Mapping[str, str]) -> tuple[list[Manifest], str]:
        query = f"?{urlencode(selectors)}" if selectors else ""
        answer = self.get(path(kind, namespace) + query)
        one = {"kind": answer["kind"].removesuffix("List"), "apiVersion": answer["apiVersion"]}
        return [{**one, **item} for item in answer["items"]], answer["metadata"]["resourceVersion"]

    def _connect(self, seconds: float = SECONDS) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self.ca_file)
        return http.client.HTTPSConnection(self.host, self.port, timeout=seconds, context=context)

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        if self.user:
            headers["Impersonate-User"] = self.user
        return headers


def _reason(text: bytes) -> str:
    try:
        return str(json.loads(text).get("message"))
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()[:500]


def summary(objects: Mapping[str, Manifest]) -> str:
    """Name, phase, node and conditions of some objects, for a message."""
    told = []
    for name, item in sorted(objects.items())[:20]:
        status = item.get("status") or {}
        marks = [f"{c['type']}={c['status']}" for c in status.get("conditions") or () if "type" in c]
        node = (item.get("spec") or {}).get("nodeName", "")
        told.append(" ".join([name, *(word for word in (status.get("phase", ""), node, *marks) if word)]))
    return "; ".join(told) or "none"
