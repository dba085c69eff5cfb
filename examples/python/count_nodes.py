# SPDX-License-Identifier: Apache-2.0
"""Counts additions of a tensor program, and doubles their right sides."""
import tenon
from tenon import te, tir


def program(n: int) -> tir.PrimFunc:
    a = te.placeholder((n,), name="A")

    def element(i: tir.Var) -> tir.PrimExpr:
        return a[i] + 1.0

    b = te.compute((n,), element, name="B")
    return te.create_prim_func([a, b])


def additions(func: tir.PrimFunc) -> list[tir.Add]:
    found: list[tir.Add] = []
    tenon.visit(func, {tir.Add: found.append})
    return found


def doubled(func: tir.PrimFunc) -> tir.PrimFunc:
    def twice(add: tir.Add) -> tir.Add:
        return tir.Add(add.a, tir.Mul(add.b, tir.FloatImm("float32", 2.0)))

    result = tenon.rewrite(func, {tir.Add: twice})
    assert isinstance(result, tir.PrimFunc)
    return result


def main() -> None:
    func = program(8)
    (add,) = additions(func)
    left: tir.PrimExpr = add.a
    print(left, "+", add.b, add.dtype)
    (changed,) = additions(doubled(func))
    print(changed, [p.name for p in func.params])


if __name__ == "__main__":
    main()
