# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan with drawn bodies that use values from outside of them."""
import numpy as np

from draw import OPERATORS, Draw, Refused, Value, operator

NUMBERS = ("float32", "float32", "int64", "int32", "float64")


def inner(d, count):
    names = [n for n in OPERATORS if n not in ("If", "Loop", "Scan") or (d.outer is None and d.chance(0.1))]
    d.grow(count, names)


def made(b, like=None, taken=()):
    """A value that the body computes, of the type and shape of `like`; an Identity or a sum where there is none. ONNX Runtime
    takes no value for two outputs of a body."""
    found = [v for v in b.values if v.node is not None and v not in taken and (like is None or (v.dtype == like.dtype and v.shape == like.shape))]
    if found and b.chance(0.8):
        return b.rng.choice(found)
    if like is None:
        return b.emit("Identity", [b.pick(NUMBERS)], exact=True)[0]
    if like not in b.visible():
        return b.emit("Identity", [b.const(like.array)], exact=like.exact)[0]
    return b.emit("Add", [like, b.const(np.array(1, like.dtype))], exact=True)[0] if b.chance(0.7) else b.emit("Identity", [like], exact=True)[0]


@operator("If", weight=0.5)
def branch(d, op):
    condition = d.fresh("bool", ()) if d.chance(0.7) else d.emit("Less", [d.emit("Size", [d.pick(NUMBERS)], exact=True)[0], d.const(np.int64(5))], exact=True)[0]
    then, other = Draw(0, d), Draw(0, d)
    inner(then, d.rng.randint(0, 3))
    first = made(then)
    inner(other, d.rng.randint(0, 3))
    second = made(other, first if d.chance(0.7) else None)
    if first.dtype != second.dtype:
        raise Refused("types")
    result = d.emit(op, [condition], exact=True, then_branch=then.body([], [first]), else_branch=other.body([], [second]))
    result[0].exact = first.exact and second.exact


@operator("Loop", weight=0.4)
def loop(d, op):
    trips = d.param(d.rng.choice((0, 1, 2, 3)), run_time=0.3) if d.chance(0.9) else None
    keep = d.const(np.array(True)) if trips is None or d.chance(0.5) else None
    state = [d.pick(NUMBERS, high=3) for _ in range(d.rng.randint(0, 2))]
    b = Draw(0, d)
    at, go = Value(b.name("i"), np.array(0), True), Value(b.name("b"), np.array(True), True)
    inside = [Value(b.name("s"), s.array, s.exact) for s in state]
    b.values += [at, go, *inside]
    inner(b, d.rng.randint(1, 3))
    after = []
    for s in inside:
        after.append(made(b, s, after))
    scans = [made(b, taken=after) for _ in range(d.rng.randint(0 if state else 1, 1))]
    if trips is None or b.chance(0.3):
        next_go = b.emit("Less", [at, b.const(np.int64(d.rng.randint(0, 2)))], exact=True)[0]
    else:
        next_go = b.emit("Identity", [go], exact=True)[0]
    body = b.body([at, go, *inside], [next_go, *after, *scans])
    results = d.emit(op, [trips, keep, *state], len(state) + len(scans), exact=True, body=body)
    for r, v in zip(results, after + scans):
        r.exact = r.exact and v.exact


@operator("Scan", weight=0.2)
def scan(d, op):
    state = [d.pick(NUMBERS, high=2) for _ in range(d.rng.randint(0, 1))]
    a = d.pick(NUMBERS, low=1, high=3, fits=lambda v: v.shape[0])
    b = Draw(0, d)
    inside = [Value(b.name("s"), s.array, s.exact) for s in state]
    row = Value(b.name("s"), a.array[0], a.exact)
    b.values += [*inside, row]
    inner(b, d.rng.randint(1, 3))
    after = [made(b, s) for s in inside]
    outs = [made(b, taken=after)]
    reverse = d.rng.choice((None, [1]))
    results = d.emit(op, [*state, a], len(state) + 1, exact=True, body=b.body([*inside, row], [*after, *outs]), num_scan_inputs=1, scan_input_directions=reverse)
    for r, v in zip(results, after + outs):
        r.exact = r.exact and v.exact
