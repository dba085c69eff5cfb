// SPDX-License-Identifier: Apache-2.0
// The data types of the tests' modules.
#pragma once

namespace tenon::graph::testing_graph {

inline constexpr const char* kDataTypes = R"(
    @I.data_type
    class List[A]:
        Nil: ()
        Cons: (A, List[A])

    @I.data_type
    class Option[A]:
        Nothing: ()
        Some: A

    @I.data_type
    class Tree[A]:
        Leaf: ()
        Node: (Tree[A], A, Tree[A])
)";

/// A function of the module that maps lists.
inline constexpr const char* kMap = R"(
    @R.function
    def map[A, B](f: R.Callable((A,), B), xs: cls.List[A]) -> cls.List[B]:
        match xs:
            case Nil():
                r = Nil()
            case Cons(h, t):
                y = f(h)
                r = Cons(y, cls.map(f, t))
        return r
)";

}  // namespace tenon::graph::testing_graph
