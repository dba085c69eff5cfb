// SPDX-License-Identifier: Apache-2.0
// Random patterns of forms of the language; pattern_texts.h says how they are written.
#include "pattern_texts.h"

namespace tenon::testing_trust {
namespace {

const char* const kList = R"(
    @I.data_type
    class RandomList[A]:
        RandomNil: ()
        RandomCons: (A, RandomList[A])
)";
const char* const kOption = R"(
    @I.data_type
    class RandomOption[A]:
        RandomNone: ()
        RandomSome: A
)";

const PatternText kTexts[] = {
    {"closure", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        @R.function
        def inside_$I(v: F($a, $b)) -> F($a, $b):
            p = R.$U(v)
            return R.$B(p, x1)
        y = inside_$I(x)
        z = inside_$I(y)
        return z
)"},
    {"higher_order", R"(
    def twice_$I(f: R.Callable((F($a, $b),), F($a, $b)), v: F($a, $b)) -> F($a, $b):
        p = f(v)
        q = f(p)
        return q

    def step_$I(v: F($a, $b)) -> F($a, $b):
        return R.$U(v)

    def main(x: F($a, $b), x1: F($a, $b)):
        @R.function
        def inside_$I(v: F($a, $b)) -> F($a, $b):
            return R.$B(v, x1)
        y = cls.twice_$I({{inside_$I|cls.step_$I}}, x)
        z = cls.twice_$I({{cls.step_$I|inside_$I}}, y)
        return (y, z)
)"},
    {"recursion", R"(
    def down_$I(n: R.Tensor((), "int64"), v: F($a, $b)) -> F($a, $b):
        more = R.greater(n, R.const(0, "int64"))
        if more:
            p = R.$U(v)
            r = cls.down_$I(R.subtract(n, R.const(1, "int64")), p)
        else:
            r = R.$U(v)
        return r

    def main(x: F($a, $b)):
        y = cls.down_$I(R.const({{0|2|3}}, "int64"), x)
        return y
)"},
    {"list", R"(
    def total_$I(xs: cls.RandomList[F($a)]) -> F($a):
        match xs:
            case RandomNil():
                r = R.zeros(R.shape([$a]), dtype="float32")
            case RandomCons(h, t):
                s = cls.total_$I(t)
                r = R.$B(R.$U(h), s)
        return r

    def main(x: F($a), x1: F($a), x2: F($a)):
        xs = RandomCons(x, RandomCons(x1, RandomCons(R.$U(x2), RandomNil())))
        y = cls.total_$I(xs)
        return y
)",
     kList},
    {"option", R"(
    def maybe_$I(c: R.Tensor((), "bool"), v: F($a, $b)) -> cls.RandomOption[F($a, $b)]:
        if c:
            r = RandomSome(v)
        else:
            r = RandomNone()
        return r

    def main(x: F($a, $b), x1: F($a, $b), x2: R.Tensor((), "bool")):
        m = cls.maybe_$I(x2, x)
        match m:
            case RandomSome(v):
                r = R.$B(v, x1)
            case RandomNone():
                r = R.$U(x1)
        return r
)",
     kOption},
    {"references", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        r = R.ref_create(x)
        a = R.ref_read(r)
        b = R.$B(a, x1)
        u = R.ref_write(r, b)
        c = R.ref_read(r)
        d = R.$U(c)
        return d
)"},
    {"tuples", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        t = (x, (x1, R.$U(x)))
        u = t[1]
        v = u[1]
        w = u[0]
        return R.$B(v, w)
)"},
    {"one_branch_reads", R"(
    def main(x: F($a, $b), x1: F($a, $b), x2: R.Tensor((), "bool")):
        p = R.$U(x)
        q = R.$B(p, x1)
        if x2:
            r = R.$B(q, x)
        else:
            r = R.$U(x1)
        return r
)"},
    {"branch_on_values", R"(
    def main(x: F($a, $b), x1: R.Tensor((), "int64")):
        c = R.less(x1, R.const(2, "int64"))
        if c:
            p = R.$U(x)
            r = R.$B(p, x)
        else:
            p = R.$U(x)
            r = R.$U(p)
        return r
)"},
    {"counting_loop", R"(
    def main(x: F($a, $b), x1: F($b, $b)):
        def go_$I(i: R.Tensor((), "int64"), s: F($a, $b)) -> F($a, $b):
            more = R.less(i, R.const({{1|3}}, "int64"))
            if more:
                p = R.tanh(R.matmul(s, x1))
                r: F($a, $b) = go_$I(R.add(i, R.const(1, "int64")), p)
            else:
                r: F($a, $b) = s
            return r
        return go_$I(R.const(0, "int64"), x)
)"},
    {"polymorphic", R"(
    def second_$I[A, B](t: R.Tuple(A, B)) -> B:
        b = t[1]
        return b

    def main(x: F($a, $b), x1: F($c)):
        t = (x1, x)
        y = cls.second_$I(t)
        return R.$U(y)
)"},
    {"unused_function", R"(
    def nobody_$I(v: F($a)) -> F($a):
        return R.$U(v)

    def asks_$I(v: F($a)) -> F($a):
        R.func_attr({"inline": 1})
        p = R.$U(v)
        return R.add(p, v)

    def main(x: F($a)):
        y = cls.asks_$I(x)
        return y
)"},
    {"symbol", R"(
    def inner_$I(v: F($a)) -> F($a):
        R.func_attr({"global_symbol": "entry_$I"})
        return R.$U(v)

    def main(x: F($a)):
        y = cls.inner_$I(x)
        return y
)"},
    {"stated_region", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        with R.dataflow():
            p = R.$U(x)
            q = R.$B(p, x1)
            R.output(q)
        return R.$U(q)
)"},
    {"symbolic_rows", R"(
    def rows_$I(v: R.Tensor((m_$I, $b), "float32"), w: F($c, $b)) -> R.Tensor((m_$I, $c), "float32"):
        y = R.nn.dense(v, w)
        return R.$U(y)

    def main(x: F($a, $b), x1: F($d, $b), x2: F($c, $b)):
        y = cls.rows_$I(x, x2)
        z = cls.rows_$I(x1, x2)
        return (y, z)
)"},
};

}  // namespace

std::span<const PatternText> texts_of_language() { return kTexts; }

}  // namespace tenon::testing_trust
