"""What the documentation's examples take as given."""

from __future__ import annotations

from typing import Any


def relax_module() -> Any:
    """A small Relax module: three times a vector of four, and ReLU."""
    import numpy as np
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("image", relax.TensorType((1, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            scaled = builder.emit(relax.op.multiply(x, relax.const(np.full((1, 4), 3, np.float32), "float32")))
            value = builder.emit_output(builder.emit(relax.op.nn.relu(scaled)))
        builder.emit_func_output(value)
    return builder.get()


def own_model() -> None:
    """The files weights.pt and x.npy for the model.py of "Your own model"."""
    import numpy as np
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )
    torch.save(net.state_dict(), "weights.pt")
    np.save("x.npy", np.zeros((1, 3, 32, 32), np.float32))
