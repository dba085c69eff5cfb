// SPDX-License-Identifier: Apache-2.0
// The target c: text for any C compiler; the one of this machine makes machine code of it.
#include <bit>
#include <charconv>

#include "codegen/c/c.h"
#include "codegen/c/c_entry.h"
#include "codegen/elf.h"
#include "codegen/lowered.h"

namespace tenon::codegen {

namespace {
constexpr int64_t kLeastAlignment = 8, kMostAlignment = 4096;  // of any element; of a page

int64_t alignment_of(const std::string& value) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  return error == std::errc() && end == value.data() + value.size() ? n : 0;
}
std::string option(const TextOptions& given, const char* name, const char* otherwise) {
  const auto it = given.find(name);
  return it == given.end() ? otherwise : it->second;
}
}  // namespace

std::vector<TextOption> c_text_options() {
  return {
      {"alignment", "of static memory, in bytes: a power of two from 8 to 4096 (64)",
       [](const std::string& v) {
         const int64_t n = alignment_of(v);
         return n >= kLeastAlignment && n <= kMostAlignment && std::has_single_bit(uint64_t(n));
       }},
      {"asserts", "return: a kernel returns 1 + k when its assertion k fails; off: it checks none (return)",
       [](const std::string& v) { return v == "return" || v == "off"; }},
      {"entry", "model: a function that runs the model; none: the kernels alone (model)",
       [](const std::string& v) { return v == "model" || v == "none"; }}};
}

COptions c_options(const TextOptions& given) {
  return {.alignment = alignment_of(option(given, "alignment", "64")),
          .asserts = option(given, "asserts", "return") != "off",
          .entry = option(given, "entry", "model") != "none",
          .prefix = option(given, "prefix", "tenon")};
}

namespace {

const bool c_registered = [] {
  register_code_generator(
      {.target =
           {.name = "c", .doc = "C11, for any C compiler", .host_rank = 1, .options = processor_options()},
       .check = [](const IRModule& lowered, const Target&) { collect_kernels(lowered); },
       .texts = {{.name = "c",
                  .ending = ".c",
                  .doc = "C11 with `tenon_run` over static memory",
                  .kernels = [](const IRModule& lowered, const Target&, int,
                                const TextOptions& options) { return c_source(lowered, c_options(options)); },
                  .model = c_entry,
                  .header = c_header,
                  .options = c_text_options()}},
       .object = [](const IRModule& lowered, const Target& target, int,
                    int) { return c_object(lowered, target); },
       .link = link_elf,
       .load = load_elf});
  return true;
}();

}  // namespace
}  // namespace tenon::codegen
