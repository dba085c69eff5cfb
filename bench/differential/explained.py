# SPDX-License-Identifier: Apache-2.0
"""Differences that are right, each with its reason."""
import dataclasses
import re


@dataclasses.dataclass
class Explained:
    """Findings of these operators (any of them in the reduced model), of this kind, whose words match."""
    operators: tuple
    kind: str
    words: str
    reason: str

    def covers(self, finding, operators):
        return finding.kind == self.kind and set(self.operators) & set(operators) and re.search(self.words, finding.code + " " + finding.words)


EXPLAINED = [
    Explained(("MaxPool", "AveragePool", "LpPool"), "refused", "window is larger", "a window larger than the padded image has no results; ONNX Runtime gives an empty tensor"),
    Explained(("Reshape",), "accepted", "", "-1 over no elements is the size for which the counts agree, 0 where any does; without a -1, a size of 0 that a symbol has stays 0"),
    Explained(("Concat",), "refused", "T0501", "sizes beside the axis must be equal; ONNX Runtime does not look at tensors without elements"),
    Explained(("GroupNormalization",), "refused", "T0501", "scale and bias have a size for each channel; ONNX Runtime reads behind shorter ones"),
    Explained(("ReduceLogSumExp", "ReduceLogSum", "ReduceL2"), "differs", "np.u?int", "of integers, ONNX Runtime truncates in between, Tenon the result"),
    Explained(("MaxPool",), "refused", "and 'Indices' needs a known spatial size", "not yet: positions of the largest elements with SAME padding of symbolic sizes"),
    Explained(("Gemm",), "accepted", "Invalid bias shape", "C is left out where beta is 0, whatever its shape"),
    Explained(("GatherND",), "refused", "T0501", "sizes of batch dimensions must be equal; ONNX Runtime does not look when there are no indices"),
]


def reason_for(finding, operators):
    """Why a finding is right, or None."""
    return next((e.reason for e in EXPLAINED if e.covers(finding, operators)), None)
