"""Inference engines behind one interface: any OpenAI-compatible server over HTTP, SGLang first."""

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import aiohttp

from dflash_guard.errors import JudgeError, UsageError

__all__ = ["Answer", "Engine", "EngineError", "HttpEngine", "Request", "ServerFacts"]

RETRIED: Final = frozenset({408, 409, 425, 429})  # and every 5xx
_PATIENCE: Final = (0.5, 30.0)  # the first wait of a back-off, and the longest, in seconds
_DOWN_S: Final = 5.0  # how long a server that did not answer is left alone


class EngineError(Exception):
    """A request that was not answered.

    Args:
        what: What the engine said, or did.
        fatal: Whether asking again can't help: the row's own fault.
        attempts: How often it was asked.
        unreachable: Whether the server did not answer at all.
    """

    def __init__(self, what: str, *, fatal: bool = False, attempts: int = 1, unreachable: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.fatal = fatal
        self.unreachable = unreachable
        self.attempts = attempts


@dataclass(frozen=True, slots=True)
class Request:
    """One answer asked for.

    Attributes:
        messages: The conversation so far, in OpenAI's form.
        tools: The tools it may call.
        kwargs: For the chat template, `enable_thinking` among them.
        prompt_ids: The rendered prompt as ids, where the engine is asked with ids.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None
    kwargs: Mapping[str, Any]
    prompt_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine wrote.

    Attributes:
        content, reasoning: Its text and its thinking; None where there is none.
        tool_calls: As the engine parsed them.
        finish_reason: `stop`, `length`, …
        usage: Token counts, as the engine says.
        prompt_ids, output_ids: Where they were asked for and given.
        attempts: How often it was asked.
    """

    content: str | None
    reasoning: str | None
    tool_calls: Sequence[Any] | None
    finish_reason: str | None
    usage: Mapping[str, Any] = field(default_factory=dict)
    prompt_ids: Sequence[int] | None = None
    output_ids: Sequence[int] | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself; "" and 0 where it does not.

    Attributes:
        engine, version: Such as `sglang` and `0.5.23`.
        model: The name that it serves.
        model_path, tokenizer_path, revision: What it loaded.
        max_length: Its context window, in tokens.
        reasoning_parser: Its reasoning parser.
    """

    engine: str = ""
    version: str = ""
    model: str = ""
    model_path: str = ""
    tokenizer_path: str = ""
    revision: str = ""
    max_length: int = 0
    reasoning_parser: str = ""


class Engine(Protocol):
    """Answers requests, many at a time."""

    async def answer(self, request: Request) -> Answer:
        """One answer.

        Raises:
            EngineError: There is none.
            JudgeError: No engine is there any more.
        """

    async def close(self) -> None:
        """Let go of what it holds."""


@dataclass(slots=True)
class _Server:
    """One base URL: how much is asked of it, and whether it answers."""

    url: str
    limit: float
    in_flight: int = 0
    down_until: float = 0.0

    def is_free(self, now: float) -> bool:
        return self.in_flight < int(self.limit) and now >= self.down_until


class HttpEngine:
    """A client of OpenAI-compatible servers.

    The least loaded server is asked; one that does not answer is left alone for a while, and one that is full is asked
    less. Nothing waits in a loop: whoever finds no server free sleeps until one is.

    Args:
        urls: Base URLs, with or without `/v1`.
        model: The name that is served.
        sampling: Sent with every request.
        max_tokens: Most tokens of an answer.
        concurrency: Most requests in flight, over all servers.
        attempts: How often one request is asked before it is given up.
        timeout: Seconds that one answer may take.
        patience: Seconds without an answer from any server after which the run is given up.
        token_ids: Whether ids are asked for.
        exact: Whether SGLang's `/generate` is asked with ids instead of the chat endpoint.
        api_key: Sent as a bearer token, "" for none.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        model: str,
        sampling: Mapping[str, Any],
        max_tokens: int,
        concurrency: int = 64,
        attempts: int = 6,
        timeout: float = 1800.0,
        patience: float = 600.0,
        token_ids: bool = False,
        exact: bool = False,
        api_key: str = "",
    ) -> None:
        each = max(1.0, concurrency / len(urls))
        self._servers = [_Server(_root(url), each) for url in urls]
        self._most = each
        self._model, self._sampling, self._max_tokens = model, dict(sampling), max_tokens
        self._attempts, self._token_ids, self._exact = attempts, token_ids, exact
        self._free = asyncio.Condition()
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # An answer comes whole after minutes of silence, so only the whole of it has a limit.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=10),
            headers=headers,
        )
        self._patience, self._answered = patience, time.monotonic()
        self.retried = 0

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def facts(self) -> ServerFacts:
        """What the first server says of itself.

        Raises:
            JudgeError: It does not answer.
            UsageError: It serves another model.
        """
        url = self._servers[0].url
        models = await self._get(f"{url}/v1/models")
        if models is None:
            raise JudgeError(f"no engine answers at {url}.", hint="start it, or correct --base-url.")
        served = {str(each.get("id")): each for each in models.get("data", []) if isinstance(each, Mapping)}
        if self._model not in served:
            raise UsageError(
                f"the engine at {url} serves {', '.join(sorted(served)) or 'no model'}, not {self._model}.",
                hint="name the served model with --model.",
            )
        said = served[self._model]
        info = await self._get(f"{url}/server_info") or {}
        version = info.get("version") or (await self._get(f"{url}/version") or {}).get("version") or ""
        return ServerFacts(
            engine=str(said.get("owned_by") or ""),
            version=str(version),
            model=self._model,
            model_path=str(info.get("model_path") or said.get("root") or ""),
            tokenizer_path=str(info.get("tokenizer_path") or said.get("root") or ""),
            revision=str(info.get("revision") or ""),
            max_length=int(said.get("max_model_len") or 0),
            reasoning_parser=str(info.get("reasoning_parser") or ""),
        )

    async def only_model(self) -> str:
        """The name of the one model that the first server serves.

        Raises:
            JudgeError: It does not answer.
            UsageError: It serves several, or none.
        """
        url = self._servers[0].url
        said = await self._get(f"{url}/v1/models")
        if said is None:
            raise JudgeError(f"no engine answers at {url}.", hint="start it, or correct the URL.")
        names = [str(each.get("id")) for each in said.get("data", []) if isinstance(each, Mapping)]
        if len(names) != 1:
            raise UsageError(
                f"the engine at {url} serves {', '.join(names) or 'no model'}.", hint="say which with --model."
            )
        return names[0]

    def serve(self, model: str) -> None:
        """Ask for a model from now on."""
        self._model = model

    async def _get(self, url: str) -> dict[str, Any] | None:
        try:
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=20)) as response:
                said = await response.json(content_type=None) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
        return said if isinstance(said, dict) else None

    async def answer(self, request: Request) -> Answer:
        """One answer, asked for again where that can help."""
        wait, longest = _PATIENCE
        attempt = 0
        while True:
            server = await self._take()
            answered = self._answered
            try:
                return await self._ask(server, request, attempt + 1)
            except EngineError as error:
                # A server that is away is no fault of the row's, unless it answers others and not this one.
                away = error.unreachable and self._answered == answered
                attempt += not away
                if error.fatal or attempt >= self._attempts:
                    raise EngineError(error.what, fatal=error.fatal, attempts=attempt) from error
                if away and time.monotonic() - self._answered > self._patience:
                    raise JudgeError(
                        f"no engine has answered for {self._patience:,.0f} s: {error.what}.",
                        hint="start it again, and then the same command: it goes on where it was.",
                    ) from error
            finally:
                await self._give_back(server)
            self.retried += 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * wait)  # noqa: S311 - jitter
            wait = min(longest, 2 * wait)

    async def _take(self) -> _Server:
        async with self._free:
            while True:
                now = time.monotonic()
                free = [server for server in self._servers if server.is_free(now)]
                if free:
                    server = min(free, key=lambda each: each.in_flight / each.limit)
                    server.in_flight += 1
                    return server
                down = [server.down_until - now for server in self._servers if server.down_until > now]
                try:
                    await asyncio.wait_for(self._free.wait(), min(down) if down else None)
                except TimeoutError:
                    continue

    async def _give_back(self, server: _Server) -> None:
        async with self._free:
            server.in_flight -= 1
            self._free.notify()

    async def _ask(self, server: _Server, request: Request, attempt: int) -> Answer:
        path, body = self._body(request)
        try:
            async with self._session.post(server.url + path, json=body) as response:
                status = response.status
                text = await response.text(errors="replace")
        except TimeoutError as error:
            raise EngineError("the request timed out") from error
        except (aiohttp.ClientError, OSError) as error:
            server.down_until = time.monotonic() + _DOWN_S
            raise EngineError(f"no answer: {type(error).__name__}", unreachable=True) from error
        self._answered = time.monotonic()
        if status in {429, 503}:
            server.limit = max(1.0, server.limit / 2)
        else:
            server.limit = min(self._most, server.limit + 0.1)
        said = _parsed(text)
        if status != 200:
            raise EngineError(f"HTTP {status}: {_message(said, text)}", fatal=not (status in RETRIED or status >= 500))
        if said is None:
            raise EngineError("the answer is no JSON object")
        if said.get("error") or said.get("object") == "error":
            raise EngineError(f"an error in HTTP 200: {_message(said, text)}")
        return _native(said, request, attempt) if self._exact else _chat(said, attempt)

    def _body(self, request: Request) -> tuple[str, dict[str, Any]]:
        if self._exact:
            sampling = {**self._sampling, "max_new_tokens": self._max_tokens}
            return "/generate", {"input_ids": list(request.prompt_ids or ()), "sampling_params": sampling}
        body: dict[str, Any] = {
            "model": self._model,
            "messages": list(request.messages),
            "max_tokens": self._max_tokens,
            "chat_template_kwargs": dict(request.kwargs),
            "separate_reasoning": True,
            **self._sampling,
        }
        if request.tools:
            body["tools"] = list(request.tools)
        if self._token_ids:
            body |= {"return_token_ids": True, "return_prompt_token_ids": True}
        return "/v1/chat/completions", body


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _message(said: Mapping[str, Any] | None, text: str) -> str:
    if said is not None:
        error = said.get("error")
        found = error.get("message") if isinstance(error, Mapping) else error or said.get("message")
        if found:
            return str(found)[:300]
    return " ".join(text.split())[:300] or "an empty body"


def _chat(said: Mapping[str, Any], attempt: int) -> Answer:
    """An answer of the chat endpoint, SGLang's or vLLM's."""
    choices = said.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise EngineError("the answer has no choice")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise EngineError("the answer has no message")
    reason = choice.get("finish_reason")
    if isinstance(reason, Mapping):
        reason = reason.get("type")
    if reason in {"abort", "error"}:
        raise EngineError(f"the engine gave up: {reason}")
    usage = said.get("usage")
    return Answer(
        content=message.get("content"),
        reasoning=message.get("reasoning_content") or message.get("reasoning"),
        tool_calls=message.get("tool_calls") or None,
        finish_reason=reason,
        usage=usage if isinstance(usage, Mapping) else {},
        prompt_ids=choice.get("prompt_token_ids") or said.get("prompt_token_ids"),
        output_ids=choice.get("response_token_ids") or choice.get("token_ids"),
        attempts=attempt,
    )


def _native(said: Mapping[str, Any], request: Request, attempt: int) -> Answer:
    """An answer of SGLang's `/generate`: ids, which whoever asked decodes."""
    ids, meta = said.get("output_ids"), said.get("meta_info")
    if not isinstance(ids, list) or not isinstance(meta, Mapping):
        raise EngineError("the answer has no output_ids")
    reason = meta.get("finish_reason")
    reason = reason.get("type") if isinstance(reason, Mapping) else reason
    if reason in {"abort", "error"}:
        raise EngineError(f"the engine gave up: {reason}")
    usage = {key: meta.get(key) for key in ("prompt_tokens", "completion_tokens") if meta.get(key) is not None}
    return Answer(None, None, None, reason, usage, list(request.prompt_ids or ()), ids, attempt)
