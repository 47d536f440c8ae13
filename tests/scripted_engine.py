"""A server that answers as it is told: well, or with the faults that real engines were seen to have."""

import asyncio
import json
import re
import threading
import time
from collections import Counter

from aiohttp import web

MODEL = "tiny-thinker"


def body(content, reasoning="I count up to it, slowly.", finish="stop", **message):
    """A chat completion in SGLang's form."""
    return {
        "id": "x",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "reasoning_content": reasoning, **message},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12},
    }


class ScriptedEngine:
    """A server in a thread. `script` maps a word in the last user turn to what is done; each is a function of the asked.

    Attributes:
        url: Where it listens.
        asked: Bodies that were posted, in order.
        seen: How often each last user turn was asked.
    """

    def __init__(self, tokenizer, script=None, *, max_length=2048, delay=0.0):
        self.tokenizer, self.script, self.max_length, self.delay = str(tokenizer), script or {}, max_length, delay
        self.asked, self.seen = [], Counter()
        self.in_flight = self.most_in_flight = 0
        self._away_until = 0.0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self):
        asyncio.run(self._main())

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/server_info", self._info)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    def pause(self, seconds):
        """Be away: every connection is closed without an answer."""
        self._away_until = time.monotonic() + seconds

    async def _models(self, _):
        said = {
            "id": MODEL,
            "object": "model",
            "owned_by": "sglang",
            "root": self.tokenizer,
            "max_model_len": self.max_length,
        }
        return web.json_response({"object": "list", "data": [said]})

    async def _info(self, _):
        said = {"model_path": self.tokenizer, "tokenizer_path": self.tokenizer, "version": "0.5.23", "revision": None}
        return web.json_response(said)

    async def _chat(self, request):
        if time.monotonic() < self._away_until:
            request.transport.close()
            return web.Response()
        asked = json.loads(await request.text())
        self.asked.append(asked)
        last = next(m["content"] for m in reversed(asked["messages"]) if m["role"] == "user")
        self.seen[last] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            for word, act in self.script.items():
                if re.search(word, last):
                    return await act(asked, self.seen[last], request)
            return web.json_response(body(f"It is this one: {last}"))
        finally:
            self.in_flight -= 1


def says(said, status=200):
    async def act(asked, nth, request):
        return web.json_response(said, status=status)

    return act


def fails_first(times, status, then=None, text=None):
    """A status for the first few times, then a good answer."""

    async def act(asked, nth, request):
        if nth <= times:
            return web.Response(status=status, text=text if text is not None else '{"error": {"message": "busy"}}')
        return web.json_response(then or body("It came at last, after all that waiting."))

    return act


def cut_off(times):
    """The connection ends in the middle of the body."""

    async def act(asked, nth, request):
        if nth > times:
            return web.json_response(body("It came at last, after all that waiting."))
        response = web.StreamResponse(headers={"Content-Length": "5000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"id": "x", "choices": [')
        request.transport.close()
        return response

    return act


def hangs(seconds):
    async def act(asked, nth, request):
        await asyncio.sleep(seconds)
        return web.json_response(body("Too late."))

    return act


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    assert true()
