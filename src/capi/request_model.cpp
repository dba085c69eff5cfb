// SPDX-License-Identifier: Apache-2.0
// The model that a request names, and the text of a reply.
#include "capi/request_model.h"

#include <filesystem>

#include "pipeline/dimensions.h"
#include "pipeline/emit.h"

namespace tenon {

IRModule load_with_dims(const std::string& model, CompileOptions& o, std::vector<std::string>* files) {
  for (const auto& [name, value] : o.dims) o.dim_bounds.erase(name);
  return load_model(model, {.dims = std::exchange(o.dims, {}),
                            .bind = std::exchange(o.bind, {}),
                            .overridden = {},
                            .external_files = files});
}

void write_or_reply(AttrMap& reply, const std::string& text, const std::string& output,
                    const ConstantTable& constants) {
  if (output.empty()) return reply.set("text", text);
  write_text_file(output, text);
  if (!constants.empty())
    save_constants(std::filesystem::path(output).replace_extension(".constants"), constants);
}

}  // namespace tenon
