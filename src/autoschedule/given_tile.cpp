// SPDX-License-Identifier: Apache-2.0
// A tile that is given in place of the model's: the annotation "tile" of a reduction's block.
//
//   T.block_attr({"tile": {"j": [2, 16], "i": 6}})     # two vectors of 16 lanes along j, six rows along i
//   T.block_attr({"tile": {"c": [1, 16], "h*w": 14}})  # rows along h and w, which become one axis
#include <fmt/format.h>

#include <algorithm>

#include "autoschedule/tile.h"
#include "base/diagnostic.h"

namespace tenon::rules {

using namespace tir;

namespace {

[[noreturn]] void refuse(const Facts& f, std::string why) {
  fail("T0746", fmt::format("the tile that block '{}' is given does not fit it: {}", f.block->name, why), {},
       R"(one axis takes vectors and lanes, two others at most take rows: {"j": [2, 16], "i": 6})");
}

int iterator_of(const Facts& f, const std::string& name) {
  for (int i : f.spatial)
    if (f.block->iter_vars[size_t(i)]->var->name == name) return i;
  refuse(f, "it has no axis '" + name + "'");
}

/// The iterators of "h*w", which must be neighbours that every access walks as one array, or those of a
/// plane.
Fusion fusion_of(const Facts& f, const std::string& names) {
  Fusion out{iterator_of(f, names.substr(0, names.find('*'))), 1};
  std::vector<Fusion> runs = fusable(f);
  if (const auto images = plane(f)) runs.push_back(*images);
  for (size_t at = names.find('*'); at != names.npos; ++out.count) {
    const size_t end = names.find('*', at + 1);
    const int next = iterator_of(f, names.substr(at + 1, end == names.npos ? end : end - at - 1));
    if (next != out.first + out.count || std::none_of(runs.begin(), runs.end(), [&](const Fusion& run) {
          return out.first >= run.first && next < run.first + run.count;
        }))
      refuse(f, "'" + names + "' are not walked as one array");
    at = end;
  }
  return out;
}

/// Vectors and lanes of the axis of the lanes, or {rows}.
std::vector<int64_t> steps_of(const Facts& f, const std::string& axis, const Any& given) {
  std::vector<int64_t> out;
  if (auto n = given.try_as<int64_t>())
    out.push_back(*n);
  else if (auto list = given.try_as<Ref<ArrayObj>>(); list && list->get())
    for (const Any& item : (*list)->items) out.push_back(item.try_as<int64_t>().value_or(0));
  if (out.empty() || out.size() > 2 || std::any_of(out.begin(), out.end(), [](int64_t n) { return n < 1; }))
    refuse(f, "'" + axis + "' takes a number of rows, or vectors and lanes");
  return out;
}

}  // namespace

std::optional<GivenTile> given_tile(const Facts& f) {
  const auto found = f.block->annotations.find("tile");
  if (!found) return std::nullopt;
  const auto axes = found->try_as<AttrMap>();
  if (!axes) refuse(f, "it is no map of axes");
  GivenTile out;
  for (const auto& [names, given] : *axes)
    if (const Fusion fusion = fusion_of(f, names); fusion.any()) {
      if (out.fusion.any()) refuse(f, "two groups of axes become one");
      out.fusion = fusion;
    }
  Tile& t = out.tile;
  for (const auto& [names, given] : *axes) {
    const int axis = out.fusion.after(fusion_of(f, names).first);
    const std::vector<int64_t> steps = steps_of(f, names, given);
    if (steps.size() == 2 && t.vector < 0)
      t.vector = axis, t.vectors = steps[0], t.lanes = steps[1];
    else if (steps.size() == 1 && t.rows < 0)
      t.rows = axis, t.row_count = steps[0];
    else if (steps.size() == 1 && t.rows2 < 0)
      t.rows2 = axis, t.row2_count = steps[0];
    else
      refuse(f, "it has too many axes");
  }
  if (t.vector < 0) refuse(f, "no axis has lanes");
  return out;
}

AttrMap tile_annotation(const Facts& f, const Fusion& fusion, const Tile& tile) {
  auto name = [&](int i) {
    const bool one = fusion.any() && i == fusion.first;
    std::string out;
    for (int k = one ? fusion.first : fusion.before(i); k <= fusion.before(i); ++k)
      out += (out.empty() ? "" : "*") + f.block->iter_vars[size_t(k)]->var->name;
    return out;
  };
  AttrMap out;
  out.set(name(tile.vector), Any(Array<int64_t>{tile.vectors, tile.lanes}));
  if (tile.rows >= 0) out.set(name(tile.rows), Any(tile.row_count));
  if (tile.rows2 >= 0) out.set(name(tile.rows2), Any(tile.row2_count));
  return out;
}

}  // namespace tenon::rules
