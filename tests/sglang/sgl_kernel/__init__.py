"""Stands in for SGLang's CUDA kernels on a machine without a driver: on the CPU path they are imported by name only."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} needs a GPU")

    return absent
