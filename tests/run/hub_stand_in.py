"""As much of the hub's HTTP interface as its client library asks for: repositories of commits, large files apart."""

import hashlib
import json
import re
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

TOKEN = "hf_standing_in"
REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"


class Hub(ThreadingHTTPServer):
    """What it holds: files of each repository, large files by checksum, and every request it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.large: dict[str, bytes] = {}
        self.large_files: set[str] = set()
        self.requests: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def sha(self, repo: str) -> str:
        digest = hashlib.sha1()
        for name, content in sorted(self.repos[repo].items()):
            digest.update(name.encode() + content)
        return digest.hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *args: Any) -> None:
        """Nobody reads along."""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        writes = self.command in ("POST", "PUT") and not path.startswith("/large/")
        if writes and self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"error": "Invalid username or password."})
        for verb, pattern, work in ROUTES:
            if verb == self.command.replace("HEAD", "GET") and (found := re.fullmatch(pattern, path)):
                return work(self, body, **found.groupdict())
        return self._send(404, {"error": "Not found"})

    def _send(self, status: int, content: Any, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        if status == 404:
            self.send_header("x-error-code", "RepoNotFound")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        repo = f"{asked['organization']}/{asked['name']}"
        known = repo in self.server.repos
        self.server.repos.setdefault(repo, {})
        self.server.private.setdefault(repo, asked.get("visibility") == "private")
        self._send(409 if known else 200, {"url": f"{self.server.url}/{repo}", "name": repo})

    def validate(self, body: bytes) -> None:
        """The card's head must be YAML with a table in it."""
        content = json.loads(body)["content"]
        good = isinstance(yaml.safe_load(content.split("---\n")[1]), dict)
        self._send(200 if good else 400, {"errors": [], "warnings": []})

    def preupload(self, body: bytes, repo: str) -> None:
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for one in json.loads(body)["files"]
        ]
        self._send(200, {"files": files})

    def batch(self, body: bytes, repo: str) -> None:
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}}
            for one in json.loads(body)["objects"]
        ]
        self._send(200, {"transfer": "basic", "objects": objects})

    def put(self, body: bytes, oid: str) -> None:
        self.server.large[oid] = body
        self._send(200 if hashlib.sha256(body).hexdigest() == oid else 400, {})

    def commit(self, body: bytes, repo: str) -> None:
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.server.repos[repo][value["path"]] = b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.server.repos[repo][value["path"]] = self.server.large[value["oid"]]
                self.server.large_files.add(value["path"])
            elif line["key"] == "deletedFile":
                del self.server.repos[repo][value["path"]]
        sha = self.server.sha(repo)
        address = f"{self.server.url}/{repo}/commit/{sha}"
        self._send(200, {"commitUrl": address, "commitOid": sha})

    def info(self, body: bytes, repo: str) -> None:
        if repo not in self.server.repos:
            return self._send(404, {"error": "Repository not found"})
        siblings = [{"rfilename": name} for name in self.server.repos[repo]]
        return self._send(200, {"id": repo, "sha": self.server.sha(repo), "siblings": siblings, "tags": []})

    def tree(self, body: bytes, repo: str) -> None:
        entries = []
        for name, content in self.server.repos[repo].items():
            entry = {"type": "file", "path": name, "size": len(content), "oid": _git_id(content)}
            if name in self.server.large_files:
                entry["lfs"] = {
                    "oid": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 130,
                }
            entries.append(entry)
        self._send(200, entries)

    def resolve(self, body: bytes, repo: str, sha: str, file: str) -> None:
        content = self.server.repos[repo][file]
        large = file in self.server.large_files
        etag = hashlib.sha256(content).hexdigest() if large else _git_id(content)
        self._send(200, content, x_repo_commit=sha, etag=f'"{etag}"', x_linked_size=str(len(content)))


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate),
    ("POST", f"/api/models/{REPO}/preupload/main", Handler.preupload),
    ("POST", rf"/{REPO}\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT", r"/large/(?P<oid>\w+)", Handler.put),
    ("POST", f"/api/models/{REPO}/commit/main", Handler.commit),
    ("GET", f"/api/models/{REPO}(?:/revision/main)?", Handler.info),
    ("GET", rf"/api/models/{REPO}/tree/\w+", Handler.tree),
    ("GET", rf"/{REPO}/resolve/(?P<sha>\w+)/(?P<file>.+)", Handler.resolve),
]
