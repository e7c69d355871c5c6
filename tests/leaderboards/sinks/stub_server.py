"""A W&B server on the loopback interface, as far as publishing needs it: GraphQL, file stream, file uploads.

It keeps what a server would keep: runs with config, tags, history and summary (the file stream's lines at their
offsets), files, and artifacts with their aliases and the content of their files. `bodies` has every byte that arrived.
It does not know what it is not asked here: an operation without an answer is an error, and stands in `unknown`.

behaviour: 'good', 'broken' (500 to everything), 'rejecting' (401), 'silent' (accepts a connection and never answers).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENTITY = "somebody"


@dataclass
class Run:
    """A run as the server knows it. upserts: how often it was begun or changed."""

    name: str
    project: str
    fields: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    state: str = "running"

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [self.history[offset] for offset in sorted(self.history)]


@dataclass
class Artifact:
    """An artifact version with the content of its files."""

    id: str
    name: str
    type: str
    aliases: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    committed: bool = False


class StubServer(ThreadingHTTPServer):
    """Everything that arrived, and the answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = "good"
        self.runs: dict[str, Run] = {}
        self.artifacts: dict[str, Artifact] = {}
        self.reports: dict[str, dict[str, Any]] = {}
        self.bodies: list[bytes] = []
        self.operations: list[str] = []
        self.unknown: list[str] = []
        self.released = threading.Event()
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up; anything else is a bug of this stub, and shows as a run that is not complete."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def artifact(self, type: str) -> Artifact:
        """The only committed artifact of a type."""
        (found,) = [one for one in self.artifacts.values() if one.type == type and one.committed]
        return found

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The answer to a GraphQL document."""
        found = re.search(r"(query|mutation)\s+(\w+)", query)
        name = found.group(2) if found else "?"
        self.operations.append(name)
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "UpsertBucket": self._upsert,
            "Viewer": lambda _: {"viewer": _VIEWER},
            "GetDefaultEntity": lambda _: {"viewer": _VIEWER},
            "ServerFeaturesQuery": lambda _: {"serverInfo": {"features": []}},
            "Runs": self._list_runs,
            "CreateRunFiles": self._create_files,
            "ArtifactType": lambda _: {"project": {"artifact": None}},
            "CreateArtifact": self._create_artifact,
            "CreateArtifactManifest": self._create_manifest,
            "CreateArtifactFiles": self._create_artifact_files,
            "CommitArtifact": self._commit,
            "ArtifactByID": self._artifact,
            "ProjectViews": self._list_reports,
            "GetProjects": self._list_projects,
            "upsertView": self._upsert_report,
        }
        if name not in answers:
            self.unknown.append(query)
            return {"errors": [{"message": f"unknown operation {name}"}]}
        return {"data": answers[name](variables)}

    def _upsert(self, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("name") or str(given["id"]).removeprefix("id-")
        run = self.runs.setdefault(name, Run(name, given.get("project") or ""))
        if given.get("config"):
            run.config = json.loads(given["config"])
        if given.get("summaryMetrics"):
            run.summary = json.loads(given["summaryMetrics"])
        names = {"display_name": "displayName"}
        run.fields |= {names.get(key, key): value for key, value in given.items() if value is not None}
        bucket = {
            **_node(run),
            "project": {"id": "project", "name": run.project, "entity": {"id": "entity", "name": ENTITY}},
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def _list_runs(self, given: dict[str, Any]) -> dict[str, Any]:
        own = [run for run in self.runs.values() if run.project == given["project"]]
        if not own:
            return {"project": None}
        edges = [{"node": _node(run), "cursor": run.name} for run in own]
        page = {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}
        return {"project": {"internalId": "1", "runCount": len(own), "readOnly": False, "runs": page}}

    def _create_files(self, given: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.url}/run/{given['run']}/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}

    def _create_artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        given = given.get("input", given)
        id = f"artifact{len(self.artifacts)}"
        aliases = [one["alias"] for one in given.get("aliases") or []]
        name = given.get("artifactCollectionName") or (given.get("artifactCollectionNames") or [""])[0]
        self.artifacts[id] = Artifact(id, name, given["artifactTypeName"], aliases)
        sequence = {"id": "sequence", "latestArtifact": None}
        return {"createArtifact": {"artifact": {"id": id, "state": "PENDING", "artifactSequence": sequence}}}

    def _create_manifest(self, given: dict[str, Any]) -> dict[str, Any]:
        file = {"id": "file", "name": given.get("name"), "displayName": given.get("name")}
        url = f"{self.url}/manifest/{given.get('artifactID')}"
        file |= {"uploadUrl": url, "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "manifest", "file": file}}}

    def _create_artifact_files(self, given: dict[str, Any]) -> dict[str, Any]:
        given = given.get("input", given)
        edges = []
        for spec in given["artifactFiles"]:
            url = f"{self.url}/artifact/{spec['artifactID']}/{spec['name']}"
            node = {"id": "file", "name": spec["name"], "displayName": spec["name"], "uploadUrl": url}
            node |= {"storagePath": f"wandb-artifact:/{spec['name']}", "artifact": {"id": spec["artifactID"]}}
            edges.append({"node": {**node, "uploadHeaders": [], "uploadMultipartUrls": None}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _commit(self, given: dict[str, Any]) -> dict[str, Any]:
        id = given.get("artifactID") or given["input"]["artifactID"]
        self.artifacts[id].committed = True
        return {"commitArtifact": {"artifact": {"id": id, "digest": "d"}}}

    def _artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        own = self.artifacts[given["id"]]
        project = {"id": "project", "internalId": "1", "name": "project", "entity": {"name": ENTITY}}
        aliases = [
            {
                "__typename": "ArtifactAlias",
                "id": alias,
                "alias": alias,
                "artifactCollection": {"__typename": "ArtifactSequence", "name": own.name, "project": project},
            }
            for alias in own.aliases
        ]
        sequence = {"__typename": "ArtifactSequence", "name": own.name, "project": project}
        numbers = {"versionIndex": 0, "size": 1, "fileCount": len(own.files), "ttlDurationSeconds": -1}
        known = {"id": own.id, "artifactType": {"name": own.type}, "aliases": aliases, "artifactSequence": sequence}
        rest = {"description": None, "metadata": None, "ttlIsInherited": False, "tags": [], "historyStep": None}
        dates = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": None, "state": "COMMITTED"}
        hashes = {"digest": "d", "commitHash": "c", "__typename": "Artifact"}
        return {"artifact": {**numbers, **known, **rest, **dates, **hashes}}

    def _list_projects(self, given: dict[str, Any]) -> dict[str, Any]:
        names = dict.fromkeys(run.project for run in self.runs.values())
        node = {"id": "project", "internalId": "1", "entityName": ENTITY, "createdAt": "2026-01-01T00:00:00Z"}
        edges = [{"node": {**node, "name": name, "isBenchmark": False, "user": None}, "cursor": name} for name in names]
        page = {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}
        return {"models": page}

    def _list_reports(self, given: dict[str, Any]) -> dict[str, Any]:
        edges = [{"node": report, "cursor": id} for id, report in self.reports.items()]
        page = {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}
        return {"project": {"allViews": page}}

    def _upsert_report(self, given: dict[str, Any]) -> dict[str, Any]:
        id = given.get("id") or f"report{len(self.reports)}"
        dates = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}
        project = {"id": "project", "name": given["projectName"], "entityName": given["entityName"]}
        known = {key: given.get(key) for key in ("name", "displayName", "description", "spec", "type")}
        user = {"username": ENTITY, "photoUrl": None, "email": None}
        self.reports[id] = {"id": id, **known, **dates, "project": project, "user": user}
        return {"upsertView": {"view": self.reports[id], "inserted": True}}

    def stream(self, run: str, body: dict[str, Any]) -> None:
        """What the file stream of a run brings."""
        own = self.runs[run]
        for name, part in (body.get("files") or {}).items():
            for i, line in enumerate(part["content"]):
                if name == "wandb-history.jsonl":
                    own.history[part["offset"] + i] = json.loads(line)
                elif name == "wandb-summary.json":
                    own.summary = json.loads(line)
        if body.get("complete"):
            own.state = "finished" if body.get("exitcode") == 0 else "failed"

    def upload(self, path: str, body: bytes) -> None:
        """A file that was put."""
        kind, owner, name = (*path.lstrip("/").split("/", 2), "")[:3]
        if kind == "run":
            self.runs[owner].files[name] = body
        elif kind == "artifact":
            self.artifacts[owner].files[name] = body


def _node(run: Run) -> dict[str, Any]:
    return {
        "id": f"id-{run.name}",
        "name": run.name,
        "projectId": "1",
        "tags": run.fields.get("tags") or [],
        "displayName": run.fields.get("displayName"),
        "group": run.fields.get("groupName"),
        "jobType": run.fields.get("jobType"),
        "config": json.dumps(run.config),
        "summaryMetrics": json.dumps(run.summary),
        "systemMetrics": "{}",
        "state": run.state,
        "historyLineCount": len(run.history),
        "historyKeys": None,
        "description": "",
        "notes": "",
        "sweepName": None,
        "commit": None,
        "readOnly": False,
        "createdAt": "2026-01-01T00:00:00Z",
        "heartbeatAt": "2026-01-01T00:00:00Z",
        "user": {"name": ENTITY, "username": ENTITY},
    }


_VIEWER = {
    "id": "viewer",
    "entity": ENTITY,
    "username": ENTITY,
    "name": ENTITY,
    "email": "",
    "flags": "{}",
    "admin": False,
    "deletedAt": None,
    "apiKeys": {"edges": []},
    "teams": {"edges": []},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubServer

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.behaviour == "silent":
            self.server.released.wait()
            self.close_connection = True
            return
        if self.server.behaviour in ("broken", "rejecting"):
            self._reply(500 if self.server.behaviour == "broken" else 401, {"error": "no"})
            return
        with self.server.lock:
            self.server.bodies.append(f"{self.path}\n{self.headers}\n".encode() + body)
            self._reply(200, self._answer(body))

    def _answer(self, body: bytes) -> dict[str, Any]:
        if self.path == "/graphql":
            document = json.loads(body)
            return self.server.answer(document["query"], document.get("variables") or {})
        if found := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self.server.stream(found.group(1), json.loads(body))
        elif self.command == "PUT":
            self.server.upload(self.path, body)
        else:
            self.server.unknown.append(f"{self.command} {self.path}")
        return {}

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_HEAD = _handle  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


@contextmanager
def stub_server() -> Iterator[StubServer]:
    """A running server."""
    server = StubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
