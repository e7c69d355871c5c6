"""A real HTTP server on this machine that answers as a model server does, for a model of this process; and misbehaves
when it is told to."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from dpicl import models

#: What a fault does with the handler and the answer that it would send; True: it has answered.
Fault = Callable[["Handler", bytes], bool]


@cache
def load_model(folder: Path) -> Any:
    """One model for all servers of a folder; what a test changes of it is set back by monkeypatch."""
    return models.load(f"hf:{folder}", device="cpu", dtype="float32")


class FakeServer(ThreadingHTTPServer):
    """kind: whose requests it understands. folder: of its model, with the tokenizer. top: how many likeliest tokens it
    lists at most; listed: how many ids a request may list. collapses: whether it mistreats requests of both kinds that
    it has at the same time, as vLLM's sampler V1 does. padding: rows behind its vocabulary. faults: one is taken for
    each request to the model. seen: (path, body) of those it has answered."""

    daemon_threads = True

    def __init__(
        self,
        kind: str,
        folder: Path,
        top: int | None = None,
        listed: int = 128,
        collapses: bool = False,
        padding: int = 0,
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.kind, self.folder, self.model = kind, folder, load_model(folder)
        model = self.model
        self.top, self.listed = top or model.vocab_size + padding, listed
        self.collapses, self.padding = collapses, padding
        self.listing = 0
        self.id, self.version = "fake", "0.0"
        self.connections: list[socket.socket] = []
        self.faults: deque[Fault | None] = deque()
        self.always: Fault | None = None
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.going, self.most_going = 0, 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def name(self, **settings: object) -> str:
        pairs = {"tokenizer": self.folder, **settings}
        return f"server:{self.url}?" + "&".join(f"{key}={value}" for key, value in pairs.items())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def stop(self) -> None:
        """Ends it with all its connections, as a process that is killed does."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def log_probs(self, prompt: list[int]) -> np.ndarray:
        with self.lock:
            return self.model.next_token_log_probs([prompt])[0].double().numpy()


@contextmanager
def run_server(kind: str, folder: Path, **how: Any) -> Iterator[FakeServer]:
    """A server that answers inside this block."""
    server = FakeServer(kind, folder, **how)
    try:
        yield server
    finally:
        server.stop()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes, and the second would wait 40 ms
    server: FakeServer

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.server
        owner, context = fake.kind.replace(".", ""), fake.model.max_length
        own = {"id": fake.id, "owned_by": owner, "meta": {"n_params": 7}, "max_model_len": context}
        if fake.kind == "openai":
            own = {"id": fake.id, "owned_by": "somebody"}
        answers = {
            "/v1/models": {"data": [own]},
            "/props": {
                "default_generation_settings": {"n_ctx": context},
                "build_info": fake.version,
            },
            "/version": {"version": fake.version},
        }
        self.answer(answers.get(self.path), 200 if self.path in answers else 404)

    def do_POST(self) -> None:
        fake = self.server
        self.sent = body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize" and fake.kind == "openai":
            self.answer(None, 404)
            return
        if self.path == "/tokenize":
            self.answer({"tokens": fake.model.encode(body.get("content", body.get("prompt")))})
            return
        prompts = (
            len(body["prompt"])
            if isinstance(body["prompt"], list) and isinstance(body["prompt"][0], list)
            else 1
        )
        with fake.lock:
            fake.going += prompts
            fake.most_going = max(fake.most_going, fake.going)
            fault = fake.always or (fake.faults.popleft() if fake.faults else None)
        try:
            fake.headers_seen.append(dict(self.headers))
            answer = MODEL[fake.kind](fake, body)
            if fault is None or not fault(self, json.dumps(answer).encode()):
                fake.seen.append((self.path, body))
                self.answer(answer, 200 if answer is not None else 400)
        finally:
            with fake.lock:
                fake.going -= prompts

    def answer(self, value: Any, status: int = 200) -> None:
        self.raw(json.dumps(value).encode(), status)

    def raw(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, said in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), said)
        self.end_headers()
        self.wfile.write(content)


def _rank(row: np.ndarray, count: int) -> list[int]:
    return np.argsort(-row, kind="stable")[:count].tolist()


def _llama_cpp(fake: FakeServer, body: dict[str, Any]) -> Any:
    prompt = body["prompt"]
    if not prompt or len(prompt) + body["n_predict"] > fake.model.max_length:
        return None
    if "n_probs" not in body:
        return {
            "content": _text(fake, prompt, body["n_predict"], body["temperature"], body["seed"]),
            "model": fake.id,
        }
    row = fake.log_probs(prompt)
    if body.get("post_sampling_probs"):
        for token, bias in body["logit_bias"]:
            row[token] += bias
        shares = np.exp(row - row.max())
        shares /= shares.sum()
        entries = [
            {"id": token, "prob": float(shares[token])} for token in _rank(row, body["n_probs"])
        ]
        return {"model": fake.id, "completion_probabilities": [{"top_probs": entries}]}
    entries = [
        {"id": token, "logprob": float(row[token])}
        for token in _rank(row, min(body["n_probs"], fake.top))
    ]
    return {"model": fake.id, "completion_probabilities": [{"top_logprobs": entries}]}


def _vllm(fake: FakeServer, body: dict[str, Any]) -> Any:
    """A choice for each prompt of a list; one that is refused refuses all."""
    prompts = body["prompt"]
    if not prompts or not isinstance(prompts[0], list):
        return _vllm_alone(fake, body)
    answers = [_vllm_alone(fake, {**body, "prompt": prompt}) for prompt in prompts]
    if None in answers:
        return None
    choices = [{**answer["choices"][0], "index": at} for at, answer in enumerate(answers)]
    return {
        "model": fake.id,
        "choices": choices,
        "usage": {"prompt_tokens": sum(map(len, prompts))},
    }


def _vllm_alone(fake: FakeServer, body: dict[str, Any]) -> Any:
    prompt, top, listed = body["prompt"], body.get("logprobs"), body.get("logprob_token_ids", [])
    if (
        body["model"] != fake.id
        or (top is not None and not -1 <= top <= fake.top)
        or len(listed) > fake.listed > 0
    ):
        return None
    if top == -1:
        if fake.top < fake.model.vocab_size:
            return None
        top = fake.top
    if top is None:
        text = _text(fake, prompt, body["max_tokens"], body["temperature"], body["seed"])
        return {"model": fake.id, "choices": [{"text": text}]}
    row = np.append(fake.log_probs(prompt), [-50.0] * fake.padding)
    wanted = [*_rank(row, 1), *listed] if listed and fake.listed else _rank(row, top)
    if fake.collapses and _meets_listed(fake, bool(listed)):
        row[0], wanted = -np.inf, [*_rank(row, 1), 0]
    entries = {f"token_id:{token}": max(float(row[token]), -9999.0) for token in wanted}
    return {"model": fake.id, "choices": [{"text": "x", "logprobs": {"top_logprobs": [entries]}}]}


def _text(fake: FakeServer, prompt: list[int], count: int, temperature: float, seed: int) -> str:
    with fake.lock:
        return fake.model.generate([prompt], count, temperature=temperature, seeds=[seed])[0]


def _meets_listed(fake: FakeServer, listed: bool) -> bool:
    """Whether a request for the likeliest tokens is in a batch with one that lists ids."""
    with fake.lock:
        fake.listing += listed
    time.sleep(0.02)
    with fake.lock:
        met = fake.listing > 0 and not listed
    if listed:
        time.sleep(0.02)
        with fake.lock:
            fake.listing -= 1
    return met


def _openai(fake: FakeServer, body: dict[str, Any]) -> Any:
    tokens = fake.model.encode(body["prompt"])
    if (
        set(body) - {"model", "prompt", "stream", "max_tokens", "temperature", "stop", "seed"}
        or not tokens
    ):
        return None
    if len(tokens) + body["max_tokens"] > fake.model.max_length:
        return None
    text = _text(fake, tokens, body["max_tokens"], body["temperature"], body["seed"])
    return {"model": fake.id, "choices": [{"text": text}], "usage": {"prompt_tokens": len(tokens)}}


MODEL: dict[str, Callable[[FakeServer, dict[str, Any]], Any]] = {
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
    "openai": _openai,
}


def status(code: int, **headers: str) -> Fault:
    """Answers with that status."""

    def fault(handler: Handler, answer: bytes) -> bool:
        handler.raw(b'{"error": "no"}', code, **headers)
        return True

    return fault


def answer_with(content: bytes, **headers: str) -> Fault:
    """Answers with these bytes."""

    def fault(handler: Handler, answer: bytes) -> bool:
        handler.raw(content, 200, **headers)
        return True

    return fault


def half(handler: Handler, answer: bytes) -> bool:
    """Closes the connection in the middle of the answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(answer)))
    handler.end_headers()
    handler.wfile.write(answer[: len(answer) // 2])
    handler.close_connection = True
    return True


def truncate(handler: Handler, answer: bytes) -> bool:
    """A complete answer of half the JSON."""
    handler.raw(answer[: len(answer) // 2])
    return True


def drop(handler: Handler, answer: bytes) -> bool:
    """Closes the connection without a word."""
    handler.close_connection = True
    return True


def send_slowly(handler: Handler, answer: bytes) -> bool:
    """Sends a byte now and then, without end: each read gets one in time."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(answer)))
    handler.end_headers()
    for at in range(400):
        handler.wfile.write(answer[at : at + 1])
        handler.wfile.flush()
        time.sleep(0.05)
    handler.close_connection = True
    return True


def send_endlessly(handler: Handler, answer: bytes) -> bool:
    """A body without an end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    block = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
    for _ in range(64):
        handler.wfile.write(block)
    handler.close_connection = True
    return True
