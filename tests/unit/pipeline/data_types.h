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

}  // namespace tenon::graph::testing_graph
