// SPDX-License-Identifier: Apache-2.0
// The files that override_kernels reads: the compile cache knows a compilation by their content, too.
#pragma once
#include <filesystem>
#include <vector>

namespace tenon::graph {

/// The programs of a folder: NAME.tir (and NAME.constants beside it), in order; what stands in folders below
/// is not read. T3001 when the folder cannot be read, T1035 when it has none.
std::vector<std::filesystem::path> override_files(const std::string& folder);

}  // namespace tenon::graph
