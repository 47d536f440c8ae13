"""The client's own CPU for each completion of `generate`, against a stub engine in another process.

    python -m benchmarks.generate [PROMPTS]

The stub answers at once with 8 kB; its CPU is its own. Reported: CPU of the client process for each completion, judging
and writing included, and its peak memory.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUB = """
import asyncio, json, sys
from aiohttp import web
import random
words = ["w" + "aeiou"[i % 5] + str(i) for i in range(5000)]
async def models(_):
    return web.json_response({"data": [{"id": "m", "owned_by": "stub", "max_model_len": 32768, "root": sys.argv[1]}]})
async def info(_):
    return web.json_response({"version": "0", "tokenizer_path": sys.argv[1], "model_path": sys.argv[1]})
count = 0
async def chat(request):
    global count
    count += 1
    await request.read()
    text = " ".join(random.choices(words, k=640))
    message = {"role": "assistant", "content": text, "reasoning_content": text}
    choices = [{"message": message, "finish_reason": "stop"}]
    return web.json_response({"choices": choices, "usage": {"completion_tokens": 1900}})
app = web.Application()
app.router.add_get("/v1/models", models)
app.router.add_get("/server_info", info)
app.router.add_post("/v1/chat/completions", chat)
async def main():
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import chat_samples

    import dflash_guard as dg
    from dflash_guard.stages.generate import generate

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        tiny = chat_samples.make_tokenizer(folder / "tiny")
        (folder / "contracts/families").mkdir(parents=True)
        (folder / "contracts/families/tiny.yaml").write_text((tiny / "tiny.yaml").read_text())
        rows = (
            {"id": str(i), "source": "s", "messages": [{"role": "user", "content": f"What is number {i}?"}]}
            for i in range(count)
        )
        (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        ignore = [
            "response-collapse",
            "thinking-share",
            "mixed-thinking",
            "truncated-share",
            "duplicate-share",
            "repetition-loop",
        ]
        dg.check(folder / "p.jsonl", stage="prompts", family="tiny", ignore=ignore)
        with subprocess.Popen([sys.executable, "-c", STUB, str(tiny)], stdout=subprocess.PIPE, text=True) as stub:
            port = stub.stdout.readline().strip()
            from dflash_guard.stages import generate as module

            measured = {}
            finish = module._Run.finish  # noqa: SLF001

            def timed(run, *args):
                measured["cpu"], measured["wall"] = time.process_time() - began[0], time.perf_counter() - began[1]
                return finish(run, *args)

            module._Run.finish = timed  # noqa: SLF001
            began = (time.process_time(), time.perf_counter())
            made = generate(
                folder / "p.jsonl", out=folder / "out", base_urls=[f"http://127.0.0.1:{port}"], model="m", ignore=ignore
            )
            stub.kill()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu, speed = measured["cpu"] / count * 1000, count / measured["wall"]
    print(f"{made.passed:,} completions: {cpu:.2f} ms of CPU each, {speed:,.0f}/s, peak {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
