"""Tiny ONNX models with the inputs and outputs of insightface's: a detector as SCRFD is, and a recognition of 112 × 112 pixels.

insightface tells them by the number of their outputs and the size of their input. Only where its packages are installed.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STRIDES = (8, 16, 32)
_KINDS = {"score": 1, "bbox": 4, "kps": 10}
_POINTS = (-0.5, -0.5, 0.5, -0.5, 0.0, 0.0, -0.4, 0.5, 0.4, 0.5)
"""Eyes, nose and the corners of the mouth, in strides from the place."""
_SMALLER, _BRIGHT = 1.2, 0.8
CELL = 32


def save_real_models(folder: Path) -> Path:
    """A detector that sees a face wherever a cell of 32 × 32 pixels is bright, the brighter the larger, and a recognition."""
    folder.mkdir(parents=True)
    _detector(folder / "det_tiny.onnx")
    _recognition(folder / "w600k_tiny.onnx")
    return folder


class _Graph:
    def __init__(self) -> None:
        self.helper: Any = import_module("onnx.helper")
        self.numpy: Any = import_module("onnx.numpy_helper")
        self.nodes: list[Any] = []
        self.held: list[Any] = []

    def hold(self, name: str, value: Any) -> str:
        self.held.append(self.numpy.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, given: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(self.helper.make_node(kind, given, [name], **attributes))
        return name

    def save(self, path: Path, given: Any, outputs: list[tuple[str, int]]) -> None:
        onnx: Any = import_module("onnx")
        tensor, number = self.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        gives = [tensor(name, number, ["places", width]) for name, width in outputs]
        graph = self.helper.make_graph(self.nodes, path.stem, [tensor("input", number, given)], gives, self.held)
        made = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(made)
        onnx.save(made, str(path))


def _detector(path: Path) -> None:
    """Two anchors a place, at three strides; only the last sees anything. Each output is (places, width)."""
    graph = _Graph()
    graph.hold("axes", np.array([1], np.int64))
    for stride in _STRIDES:
        graph.add("AveragePool", ["input"], f"pool{stride}", kernel_shape=[stride, stride], strides=[stride, stride])
        graph.add("ReduceMean", [f"pool{stride}", "axes"], f"mean{stride}", keepdims=1)
        for kind, width in _KINDS.items():
            weight, bias = _factors(kind, seen=stride == CELL)
            held = [graph.hold(f"{kind}{stride}.{part}", value) for part, value in (("w", weight), ("b", bias))]
            last = graph.add("Conv", [f"mean{stride}", *held], f"{kind}{stride}.conv")
            if kind == "score":
                last = graph.add("Sigmoid", [last], f"{kind}{stride}.sure")
            last = graph.add("Transpose", [last], f"{kind}{stride}.turned", perm=[0, 2, 3, 1])
            shape = graph.hold(f"{kind}{stride}.shape", np.array([-1, width], np.int64))
            graph.add("Reshape", [last, shape], f"{kind}_{stride}")
    outputs = [(f"{kind}_{stride}", width) for kind, width in _KINDS.items() for stride in _STRIDES]
    graph.save(path, [1, 3, "height", "width"], outputs)


def _factors(kind: str, *, seen: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rows = 2 * _KINDS[kind]
    weight = np.zeros((rows, 1, 1, 1), np.float32)
    if kind == "score":
        weight += 20 if seen else 0
        return weight, np.full(rows, -10, np.float32)
    if kind == "bbox":
        return weight + np.float32(_BRIGHT), np.full(rows, _SMALLER, np.float32)
    return weight, np.array(_POINTS * 2, np.float32)


def _recognition(path: Path) -> None:
    graph = _Graph()
    graph.add("AveragePool", ["input"], "pool", kernel_shape=[28, 28], strides=[28, 28])
    graph.add("Flatten", ["pool"], "flat")
    weight = np.cos(np.arange(48 * 512) * 1.7).astype(np.float32).reshape(48, 512)
    graph.add("MatMul", ["flat", graph.hold("weight", weight)], "face")
    graph.save(path, ["batch", 3, 112, 112], [("face", 512)])
