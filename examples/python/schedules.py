# SPDX-License-Identifier: Apache-2.0
"""One program by two schedules: stages of tensor expressions, and a rule for tensor programs that name it."""
import numpy as np
import tenon
from tenon import te, tir, transform

Args = list[te.Tensor]


def doubled(n: int) -> Args:
    a = te.placeholder((n,), name="A")

    def element(i: tir.Var) -> tir.PrimExpr:
        return a[i] * 2.0

    return [a, te.compute((n,), element, name="B")]


def staged(args: Args) -> tenon.Executable:
    s = te.create_schedule(args[1].op)
    outer, inner = s[args[1]].split(args[1].op.axis[0], factor=8)
    s[args[1]].vectorize(inner).parallel(outer)
    program = tenon.lower(s, args, name="main").functions["main"]
    assert isinstance(program, tir.PrimFunc)
    print([p.name for p in program.params])
    return tenon.build(s, args)


@tir.schedule_rule("example.by_eight")
def by_eight(sch: tir.Schedule, target: tenon.target.Target) -> None:
    assert target.vector_bits > 0
    (loop,) = sch.get_loops("B")
    _, inner = sch.split(loop, [None, 8])
    sch.vectorize(inner)


def ruled(args: Args) -> tenon.Executable:
    func = te.create_prim_func(args).with_attr("tenon.schedule_rule", "example.by_eight")
    return tenon.compile(tenon.IRModule({"main": func}))


def main() -> None:
    assert "vectorize" not in transform.names()
    x = np.arange(32, dtype="float32")
    for executable in (staged(doubled(32)), ruled(doubled(32))):
        y = np.asarray(executable(x))
        assert np.array_equal(y, 2 * x)
        print(executable.outputs[0][1], y[:4])


if __name__ == "__main__":
    main()
