"""A trained policy as files that act without quell: NumPy arrays with a few lines of code, and an ONNX graph.

Both take flat observations, [o] or [n, o] (ONNX: [n, o]), and return what the environment's `step` takes for the mean
action. A policy is a chain of small operations on one value, and each is said here once, as NumPy text and as ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quell.config import check_out
from quell.errors import UsageError, require
from quell.registry import as_path
from quell.runs.files import write_atomically
from quell.tasks.foreign.base import ForeignTask
from quell.tasks.foreign.spaces import ActionReader
from quell.types import Array

if TYPE_CHECKING:
    from quell.api import Result
    from quell.training.trained import TrainedPolicy

Step = tuple[str, list[tuple[str, ...]]]
"""A line of NumPy, and ONNX operations, each on the value so far and a named array."""

CODE = '''"""The policy of {task}, without quell: act(obs) is what env.step takes.

Observations are flat, [{obs}] or [n, {obs}].
"""

from pathlib import Path

import numpy as np

p = dict(np.load(Path(__file__).with_name("policy.npz")))


def act(obs):
    h = np.asarray(obs, np.float32)
{lines}
    return h
'''


def to_numpy(policy: Result | TrainedPolicy | Path | str, folder: Path | str) -> list[Path]:
    """policy.npz and act.py, of a result, its policy, or what `quell.load` takes."""
    trained = _trained(policy)
    arrays, task = _arrays(trained), trained.task
    data = BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    lines = "\n".join(f"    {line}" for line, _ in _steps(trained, arrays))
    code = CODE.format(task=task.name, obs=task.obs_size, lines=lines)
    return _write(folder, {"policy.npz": data.getvalue(), "act.py": code.encode()})


def to_onnx(policy: Result | TrainedPolicy | Path | str, folder: Path | str) -> list[Path]:
    """policy.onnx: `obs` [n, o] in, `action` [n, ...] out."""
    trained = _trained(policy)
    require("onnx", "an ONNX file")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    arrays = _arrays(trained)
    nodes, value, used = [], "obs", set[str]()
    for number, (operation, *given) in enumerate(op for _, ops in _steps(trained, arrays) for op in ops):
        attributes = {"ArgMax": {"axis": -1, "keepdims": 0}, "Gather": {"axis": -1}}.get(operation, {})
        if operation == "Cast":
            attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(given.pop()))
        nodes.append(helper.make_node(operation, [value, *given], [f"h{number}"], **attributes))
        value, used = f"h{number}", used | set(given)
    nodes.append(helper.make_node("Identity", [value], ["action"]))
    task = trained.task
    one = task.discrete and not task.choices
    kind = TensorProto.INT64 if one else helper.np_dtype_to_tensor_dtype(_given(trained).dtype)
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["n", task.obs_size])],
        [helper.make_tensor_value_info("action", kind, ["n", *_given(trained).shape])],
        [numpy_helper.from_array(value, name) for name, value in arrays.items() if name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return _write(folder, {"policy.onnx": model.SerializeToString()})


def _steps(trained: TrainedPolicy, arrays: dict[str, Array]) -> Iterator[Step]:
    policy = trained.policy
    if "mean" in arrays:
        yield 'h = (h - p["mean"]) * p["scale"]', [("Sub", "mean"), ("Mul", "scale")]
    name, operation = ("np.tanh({})", ("Tanh",)) if policy.activation == "tanh" else ("np.maximum({}, 0)", ("Relu",))
    last = len(policy.layers) - 1
    for i in range(last):
        linear = name.format(f'h @ p["w{i}"] + p["b{i}"]')
        yield f"h = {linear}", [("MatMul", f"w{i}"), ("Add", f"b{i}"), operation]
    yield f'h = h @ p["w{last}"] + p["b{last}"]', [("MatMul", f"w{last}"), ("Add", f"b{last}")]
    if policy.kind == "categorical":
        if policy.choices:
            yield 'h = h[..., p["index"]] + p["mask"]', [("Gather", "index"), ("Add", "mask")]
        yield 'h = h.argmax(-1) + p["start"]', [("ArgMax",), ("Add", "start")]
        if policy.choices:
            yield from _shaped(_given(trained))
        return
    if policy.actions == "scale":
        stretch: list[tuple[str, ...]] = [
            ("Max", "minus_one"),
            ("Min", "one"),
            ("Add", "one"),
            ("Mul", "half"),
            ("Add", "low"),
        ]
        yield 'h = p["low"] + (np.clip(h, -1, 1) + 1) * p["half"]', stretch
    elif policy.actions == "clip":
        yield 'h = np.clip(h, p["low"], p["high"])', [("Max", "low"), ("Min", "high")]
    if "shape" in arrays:  # the environment's own space: within it, and of its type
        given = _given(trained)
        cast, *reshaped = _shaped(given)
        whole = np.issubdtype(given.dtype, np.integer)
        if not whole:
            yield cast
        yield 'h = np.clip(h, p["lowest"], p["highest"])', [("Max", "lowest"), ("Min", "highest")]
        if whole:
            yield "h = np.rint(h)", [("Round",)]
            yield cast
        yield from reshaped


def _shaped(given: Any) -> Iterator[Step]:
    """To the type and the shape of an action of the environment's."""
    yield f'h = h.astype("{given.dtype}")', [("Cast", str(given.dtype))]
    if given.ndim != 1:
        yield f"h = h.reshape(*h.shape[:-1], *{given.shape})", [("Reshape", "shape")]


def _arrays(trained: TrainedPolicy) -> dict[str, Array]:
    """What the operations read, by name."""
    if trained.policy.own:
        raise UsageError("only quell's own networks can be exported")
    policy, task = trained.policy, trained.task.bare
    parts = policy.unflatten(trained.theta)
    arrays = {name: np.array(part) for name, part in parts.items() if name != "log_std"}
    if trained.obs_stats is not None:
        arrays["mean"], arrays["scale"] = trained.obs_stats.normaliser()
    if policy.kind == "categorical":
        start = ActionReader(task.spaces[1]).start if isinstance(task, ForeignTask) else 0
        arrays["start"] = np.asarray(start, np.int64)
        if policy.choices:
            arrays["index"], arrays["mask"] = policy.table
            arrays["shape"] = np.array([-1, *_given(trained).shape], np.int64)
        return arrays
    if trained.bounds is not None:
        arrays["low"], arrays["high"] = (np.asarray(bound, np.float32) for bound in trained.bounds)
    if policy.actions == "scale":
        ones = {"one": np.array(1, np.float32), "minus_one": np.array(-1, np.float32)}
        arrays |= {"half": (arrays["high"] - arrays["low"]) / 2, **ones}
    if isinstance(task, ForeignTask):
        space, given = task.spaces[1], _given(trained)
        kind = np.float32 if np.issubdtype(given.dtype, np.integer) else given.dtype
        arrays |= {"lowest": space.low.reshape(-1).astype(kind), "highest": space.high.reshape(-1).astype(kind)}
        arrays["shape"] = np.array([-1, *given.shape], np.int64)
    return arrays


def _given(trained: TrainedPolicy) -> Any:
    """Any action of the space, for its shape and type."""
    return trained.task.as_given(np.zeros((1, trained.policy.recorded_size), np.float32))[0]


def _trained(policy: Result | TrainedPolicy | Path | str) -> TrainedPolicy:
    from quell.api import policy_of

    return policy_of(policy)


def _write(folder: Path | str, contents: dict[str, bytes]) -> list[Path]:
    folder = check_out(as_path("folder", folder), "folder")
    for name, data in contents.items():
        write_atomically(folder / name, data)
    return [folder / name for name in contents]
