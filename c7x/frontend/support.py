"""The support report: which operators of a model cannot be compiled, where they stand, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from c7x.errors import UnsupportedError


class NotCompiled(Exception):  # noqa: N818  (a verdict on one operator, never shown as an error)
    """Raised while one operator is being rewritten or imported: its reason and hint become a row of the report."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        #: Set while the graph is rewritten: the operator, and the formatted stack of the user's call.
        self.op = ""
        self.stack_trace = ""


@dataclass(frozen=True, kw_only=True)
class SupportRow:
    """One operator at one source line: how often it occurs there, why it cannot be compiled, what to do."""

    op: str
    count: int
    source: str
    reason: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One node of the graph that cannot be compiled."""

    op: str
    source: str
    reason: str
    hint: str


#: Operators that decide from values what is computed.
_CONTROL_FLOW = ("aten._local_scalar_dense", "higher_order.cond", "higher_order.while_loop")


class SupportError(UnsupportedError):
    """An ``UnsupportedError`` with the report's rows for machines (``rows``, dicts of the columns).

    Args:
        rows: what cannot be compiled.
        control_flow: no operator is at fault: the rows are lines of Python that decide from values what is computed.
    """

    def __init__(self, rows: Iterable[SupportRow], *, control_flow: bool = False) -> None:
        table = list(rows)
        self.rows: list[dict[str, str | int]] = [asdict(row) for row in table]
        if control_flow or all(row.op.startswith(_CONTROL_FLOW) for row in table):
            fact = "what the model computes depends on the values of its data (control flow, or a shape)"
            cause = "a compiled model is one fixed sequence of steps, with every shape known beforehand"
        else:
            noun = "an operator" if len({row.op for row in table}) == 1 else "operators"
            fact = f"the model uses {noun} that c7x does not compile"
            cause = "there is no lowering for them, or a fixed program cannot follow what they do with the data"
        super().__init__(
            f"{fact}:\n\n{render(table)}",
            cause=cause,
            hint=table[0].hint if len({row.hint for row in table}) == 1 else "see the last column of the table",
        )
        self.details = {"rows": self.rows}


DATA_DEPENDENT = "the output's shape depends on the data (data-dependent shape)"
RANDOM = "draws random numbers (random operator)"

_TRAINING = ("batch normalisation in training mode", "call model.eval() before torch.export.export")

#: Operator (without overload) -> why not, and what to do instead.
KNOWN: Mapping[str, tuple[str, str]] = {
    "aten.nonzero": (DATA_DEPENDENT, "use a mask with torch.where, or topk with a fixed k"),
    "aten.masked_select": (DATA_DEPENDENT, "use torch.where(mask, x, 0) to keep the shape"),
    "aten._unique2": (DATA_DEPENDENT, "compute unique values outside the model"),
    "aten.unique_dim": (DATA_DEPENDENT, "compute unique values outside the model"),
    "aten.unique_consecutive": (DATA_DEPENDENT, "compute unique values outside the model"),
    "aten.repeat_interleave": (DATA_DEPENDENT, "pass the number of repeats as a Python int"),
    "aten._embedding_bag": (
        "bags of different lengths (embedding_bag)",
        "use nn.Embedding and sum or mean over a dimension",
    ),
    "aten.embedding_bag": (
        "bags of different lengths (embedding_bag)",
        "use nn.Embedding and sum or mean over a dimension",
    ),
    "aten.stft": ("complex numbers (stft)", "use a Conv1d with a fixed Fourier basis, as silero-vad does"),
    "aten._fft_r2c": (
        "complex numbers (fft)",
        "multiply by a fixed real DFT matrix, or compute the spectrum before the model",
    ),
    "aten._fft_c2c": (
        "complex numbers (fft)",
        "multiply by a fixed real DFT matrix, or compute the spectrum before the model",
    ),
    "aten._fft_c2r": (
        "complex numbers (fft)",
        "multiply by a fixed real DFT matrix, or compute the spectrum before the model",
    ),
    "aten.max_unpool2d": ("scatter by pooling indices (max_unpool2d)", "use F.interpolate or ConvTranspose2d"),
    "aten.max_unpool3d": ("scatter by pooling indices (max_unpool3d)", "use F.interpolate or ConvTranspose3d"),
    "aten._local_scalar_dense": (
        "a tensor's value becomes a Python number (.item(), int(), float(), or a branch on data)",
        "keep the value a tensor: torch.where instead of if",
    ),
    "higher_order.cond": ("a branch on data (torch.cond)", "compute both sides and choose with torch.where"),
    "higher_order.while_loop": ("a loop on data", "loop a fixed number of times"),
    "higher_order.scan": ("a loop carried by torch.scan", "write the loop in Python with a fixed length"),
    "aten.linalg_inv_ex": ("a matrix inverse (linalg_inv)", "invert constant matrices before the export"),
    "aten._linalg_solve_ex": ("a linear solver", "solve for constants before the export"),
    "aten._linalg_svd": ("a singular value decomposition", "decompose constants before the export"),
    "aten._native_batch_norm_legit_functional": _TRAINING,
    "aten._native_batch_norm_legit": _TRAINING,
    "aten.lgamma": ("no lowering", "approximate it with a polynomial"),
    "aten.digamma": ("no lowering", "approximate it with a polynomial"),
    "aten.erfinv": ("no lowering", "approximate it with a polynomial"),
}

CUSTOM = ("a custom operator: c7x knows only PyTorch's own", "write it with torch operators")
UNKNOWN = (
    "no lowering that was checked against PyTorch",
    "write it with simpler operators; docs/model-support.md lists them",
)


def explain(op: str) -> tuple[str, str]:
    """Reason and hint for an operator such as ``aten.nonzero.default`` that has no lowering."""
    name = op.rsplit(".", 1)[0] if op.count(".") > 1 else op
    if name in KNOWN:
        return KNOWN[name]
    if not op.startswith(("aten.", "prims.", "higher_order.", "_operator.", "quantized_decomposed.")):
        return CUSTOM
    return UNKNOWN


def collect(findings: Iterable[Finding]) -> list[SupportRow]:
    """One row per operator, source line and reason, in order of first appearance."""
    counts: dict[Finding, int] = {}
    for finding in findings:
        counts[finding] = counts.get(finding, 0) + 1
    return [SupportRow(op=f.op, count=n, source=f.source, reason=f.reason, hint=f.hint) for f, n in counts.items()]


def render(rows: Iterable[SupportRow]) -> str:
    """The report as a plain text table."""
    header = ("op", "count", "source", "reason", "what to do")
    cells = [header, *((r.op, str(r.count), r.source or "-", r.reason, r.hint) for r in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    lines = []
    for row in cells:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*padded, row[-1]]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in [*widths, len(header[-1])]))
    return "\n".join(lines)
