# SPDX-License-Identifier: Apache-2.0
"""Builds a graph, runs a pass of its own over it, and watches the kernels of the compiled model."""
from typing import Any

import numpy as np
import tenon
from tenon import graph, op, te, tir, transform


def network() -> tenon.IRModule:
    n = te.var("n")
    x = graph.var("x", graph.Tensor((n, 4), "float32"))
    bb = graph.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(op.nn.relu(x) * 0.5)
        bb.emit_func_output(y)
    return bb.finalize()


@transform.pass_instrument
class Names:
    """The passes that ran."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def run_after_pass(self, mod: tenon.IRModule, info: Any) -> None:
        self.seen.append(info.name)


@transform.prim_func_pass(opt_level=1)
def unchanged(func: tir.PrimFunc, mod: tenon.IRModule, ctx: transform.PassContext) -> tir.PrimFunc:
    """Looks at every tensor program, and leaves it as it is."""
    assert mod.functions and ctx.opt_level == 3
    return func


def passes(module: tenon.IRModule) -> list[str]:
    names = Names()
    with transform.PassContext(opt_level=3, instruments=[names], config={"fuse_ops.max_depth": 8}) as context:
        transform.Sequential(["infer_types", "fuse_ops", unchanged])(module)
    assert [name for name, _, _ in context.timings] == names.seen
    return names.seen


def kernels(module: tenon.IRModule) -> list[str]:
    vm, seen = tenon.VirtualMachine(tenon.compile(module)), list[str]()

    def watch(func: None, name: str, before_run: bool, ret_val: Any, *args: Any) -> tenon.VMInstrumentReturnKind:
        if not before_run:
            seen.append(name)
        return tenon.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(watch)
    y = vm["main"](np.array([[-1, 0, 1, 2]], "float32"))
    vm.set_instrument(None)
    assert np.asarray(y).tolist() == [[0, 0, 0.5, 1]]
    return seen


def main() -> None:
    module = network()
    print(", ".join(passes(module)))
    print(", ".join(kernels(module)))


if __name__ == "__main__":
    main()
