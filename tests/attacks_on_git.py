"""Repositories whose settings start a program that writes a file, as a sender could make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

#: A commit that no repository has: a partial clone fetches it.
MISSING = "1234567890" * 4
_LAZY = """\
[core]
 repositoryformatversion = 1
 sshCommand = {command}
[extensions]
 partialClone = evil
[remote "evil"]
 url = {address}
 promisor = true
 uploadpack = {command}
[protocol]
 allow = always
[protocol "ext"]
 allow = always
[protocol "file"]
 allow = always
"""
#: What starts the program -> (settings of a repository; {command}: the program), the git command that then starts it.
ATTACKS = {
    "a file-system monitor": ("[core]\n fsmonitor = {command}\n", ("status", "--porcelain")),
    "a hook": ("[core]\n hooksPath = {hooks}\n", ("status",)),
    "an included file": ("[include]\n path = {included}\n", ("status", "--porcelain")),
    "another work tree": ("[core]\n worktree = ..\n fsmonitor = {command}\n", ("status", "--porcelain")),
    "a fetch by a program": (_LAZY.replace("{address}", "ext::{command}"), ("cat-file", "commit", MISSING)),
    "a fetch by ssh": (_LAZY.replace("{address}", "ssh://nowhere.invalid/x"), ("cat-file", "commit", MISSING)),
    "a fetch from here": (_LAZY.replace("{address}", "file://{command}"), ("cat-file", "commit", MISSING)),
    "a diff program": ("[diff]\n external = {command}\n", ("diff", "HEAD")),
    "a verifier of signatures": ("[gpg]\n program = {command}\n", ("verify-commit", "{signed}")),
    "a keeper of passwords": ("[credential]\n helper = {command}\n", ("credential", "fill")),
}


def plain_git(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """git as anybody would call it in that folder: nothing is closed."""
    names = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *names, *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, input=given)


def new_repository(folder: Path) -> Path:
    """A repository with one commit of one file, which has changed since; returns the folder with its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file.txt").write_text("first\n")
    for words in (("init", "-q", "-b", "main"), ("add", "file.txt"), ("commit", "-q", "-m", "first")):
        done = plain_git(folder, *words)
        assert done.returncode == 0, done.stderr
    (folder / "file.txt").write_text("second\n")
    return folder / ".git"


def command_for(marker: Path) -> str:
    """The path of a program that writes the marker, whatever it is given."""
    program = marker.with_name(f"{marker.name}.sh")
    program.write_text(f"#!/bin/sh\n: > {marker}\n")
    program.chmod(0o755)
    return str(program)


def arm(settings: Path, kind: str, marker: Path) -> tuple[str, ...]:
    """Writes the settings of an attack into a repository; returns the git command that starts its program."""
    text, words = ATTACKS[kind]
    command = command_for(marker)
    hooks, included = marker.with_name("hooks"), marker.with_name("included")
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "pre-commit"):
        (hooks / name).write_bytes(Path(command).read_bytes())
        (hooks / name).chmod(0o755)
    included.write_text(f"[core]\n fsmonitor = {command}\n")
    with (settings / "config").open("a") as file:
        file.write(text.format(command=command, hooks=hooks, included=included))
    return tuple(_signed_commit(settings) if word == "{signed}" else word for word in words)


def _signed_commit(settings: Path) -> str:
    """A commit with a signature of nobody, as text."""
    text = plain_git(settings.parent, "cat-file", "commit", "HEAD").stdout
    head, _, message = text.partition(b"\n\n")
    signed = head + b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n" + message
    done = plain_git(settings.parent, "hash-object", "-t", "commit", "-w", "--stdin", given=signed)
    return done.stdout.decode().strip()
