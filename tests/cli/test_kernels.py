"""``rlscaling kernels``: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from rlscaling.cli import main
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import backends


@pytest.fixture(autouse=True)
def decided_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(backends.VARIABLE, raising=False)
    monkeypatch.setattr(backends.torch.cuda, "is_available", lambda: False)
    backends.choose.cache_clear()
    yield
    backends.choose.cache_clear()


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("reference: plain torch in FP32: tensors on the CPU need no kernels\n")
    assert "torch sees no CUDA device; NVRTC 1" in out
    assert "g++" in out
    assert "RLSCALING_KERNELS=NAME forces one" in out


def test_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backends.VARIABLE, "emulate")
    assert main(["kernels", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["backend"] == "emulate"
    assert {name: one["available"] for name, one in found["implementations"].items()} == {
        "reference": True, "cuda": False, "emulate": True,
    }  # fmt: skip


def test_a_gpu_whose_driver_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernels are refused for is what the table says."""

    def refuse() -> None:
        raise TrainError("the driver runs CUDA 11 at most")

    monkeypatch.setattr(backends.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(backends.torch.cuda, "get_device_name", lambda: "H100")
    monkeypatch.setattr(backends.torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(backends.cuda, "check_driver", refuse)
    assert backends.survey()["cuda"] == (False, "H100: the driver runs CUDA 11 at most")
    monkeypatch.setattr(backends.cuda, "check_driver", lambda: None)
    there, about = backends.survey()["cuda"]
    assert there
    assert re.fullmatch(r"H100: CUDA kernels compiled by NVRTC 1\d\.\d+ for sm_90", about)


def test_what_is_forced_and_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backends.VARIABLE, "cuda")
    assert main(["kernels"]) == 3
    assert "RLSCALING_KERNELS=cuda, and torch sees no CUDA device here" in capsys.readouterr().err
