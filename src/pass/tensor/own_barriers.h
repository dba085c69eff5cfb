// SPDX-License-Identifier: Apache-2.0
// Between lower_cross_thread_reduction and thread_sync.
#pragma once
#include <string_view>

namespace tenon::tensor_detail {

/// Key of an AttrStmt around statements that wait for each other by themselves and end with a barrier:
/// thread_sync leaves them as they are.
inline constexpr std::string_view kOwnBarriers = "own_barriers";

}  // namespace tenon::tensor_detail
