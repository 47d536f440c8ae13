"""Make an environment with SGLang for tests on a CPU: `python tests/sglang/install.py VENV`.

SGLang asks for GPU libraries that its CPU path never calls; they are left out, which makes the environment some 6.7 GB
instead of many more. torch and torchvision must match each other.
"""

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

SGLANG = "sglang==0.5.23"
TORCH = ("torch==2.14.1", "torchvision==0.29.1")
UNUSED = {
    "flash-attn-4", "flashinfer", "flashinfer-python", "flashinfer-cubin", "humming-kernels", "nvidia-cutlass-dsl",
    "nvidia-mathdx", "nvshmem4py", "nvshmem4py-cu12", "nvshmem4py-cu13", "quack-kernels", "sgl-deep-ep", "sgl-deep-gemm",
    "sgl-flash-mla", "sgl-kernel", "sglang-kernel", "tilelang", "cuda-python", "torchcodec", "torchaudio", "timm",
    "modelscope", "smg-grpc-servicer", "deepseek-recipe", "tml-renderers", "torch", "torchvision",
}  # fmt: skip


def main() -> None:
    """Install, unless it is there."""
    folder = Path(sys.argv[1]).absolute()
    python = folder / "bin/python"
    if (folder / ".installed").exists():
        return
    venv.create(folder, with_pip=True, clear=True)

    def pip(*args: str) -> None:
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "-q", *args], check=True)

    pip("install", *TORCH)
    with tempfile.TemporaryDirectory() as name:
        pip("download", "--no-deps", "-d", name, SGLANG)
        wheel = next(Path(name).glob("sglang*.whl"))
        with zipfile.ZipFile(wheel) as file:
            metadata = next(
                file.read(each).decode() for each in file.namelist() if each.endswith(".dist-info/METADATA")
            )
        wanted = [
            line.removeprefix("Requires-Dist: ")
            for line in metadata.splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
        kept = [each for each in wanted if plain(re.split(r"[\s;<>=!~\[(@]", each, maxsplit=1)[0]) not in UNUSED]
        (Path(name) / "kept.txt").write_text("\n".join(kept) + "\n")
        (Path(name) / "torch.txt").write_text("\n".join(TORCH) + "\n")
        pip("install", "--no-compile", "-r", f"{name}/kept.txt", "-c", f"{name}/torch.txt")
        pip("install", "--no-deps", str(wheel))
    subprocess.run([python, "-m", "compileall", "-q", "-j", "0", str(folder / "lib")], check=False)
    (folder / ".installed").touch()


def plain(name: str) -> str:
    """A distribution's name in its one normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


main()
