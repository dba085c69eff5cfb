// SPDX-License-Identifier: Apache-2.0
// Model files of any kind, told from their content.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "import/onnx/load.h"
#include "import/relay/load.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "pipeline/bind_inputs.h"
#include "pipeline/compile.h"
#include "pipeline/dimensions.h"
#include "pipeline/program_entry.h"

namespace tenon {
namespace {

std::string read_stream(std::istream& in) {
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string folder_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

onnx::ImportOptions import_options(const LoadModelOptions& options) {
  onnx::ImportOptions out;
  out.dims = sizes_of(options.dims);
  for (const auto& [name, value] : options.bind) out.values.emplace(name, value);
  out.overridden = options.overridden;
  out.external_files = options.external_files;
  return out;
}

/// Script text has a decorated definition; what is not text has a byte 0.
bool looks_like_script(std::string_view bytes) {
  if (bytes.find('\0') != bytes.npos) return false;
  // An older form, which the parser refuses by name.
  const std::string_view text = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  if (text.starts_with("primfn(")) return true;
  for (size_t at = 0; at < bytes.size(); at = std::min(bytes.find('\n', at), bytes.size() - 1) + 1) {
    const size_t word = bytes.find_first_not_of(" \t", at);
    if (word != bytes.npos && bytes[word] == '@') return true;
  }
  return false;
}

/// A module of programs in script text or in Relay's.
IRModule parse_text(std::string_view text, const std::string& name, const ConstantTable* constants) {
  if (relay::looks_like_relay(text)) return relay::import_relay(text, name);
  if (!looks_like_script(text))
    fail("T2001", "this is neither a model nor a module of programs", name,
         "give an ONNX file, an artifact, script text (@I.ir_module, @T.prim_func or @R.function) or Relay "
         "text "
         "(#[version = \"0.0.5\"])");
  ParseOptions parse;
  parse.name = name;
  parse.constants = constants;
  return parse_module(text, parse);
}

}  // namespace

const std::string& standard_input() {
  // A command may ask for the model's facts before it compiles it.
  static const std::string bytes = read_stream(std::cin);
  return bytes;
}

ModelKind model_kind(std::string_view bytes) {
  if (bytes.starts_with("\x7f"
                        "ELF") ||
      bytes.starts_with("{"))  // a graph of operators over an artifact
    return ModelKind::artifact;
  return onnx::looks_like_onnx(bytes.substr(0, 4096)) ? ModelKind::onnx : ModelKind::script;
}

IRModule load_model(const std::string& path, const LoadModelOptions& options) {
  std::string bytes;
  if (path == "-") {
    bytes = standard_input();
  } else {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path + ": " + std::strerror(errno));
    char head[4096];
    in.read(head, sizeof head);
    const std::string_view begin(head, size_t(in.gcount()));
    if (in.bad() || (begin.empty() && !in.eof()))
      throw Error(ErrorKind::io, "T3001", "cannot read " + path + ": it is no regular file");
    // The importer reads the file itself: external data stands beside it.
    if (model_kind(begin) == ModelKind::onnx)
      return with_bound_inputs(onnx::import_onnx(path, import_options(options)), options.bind);
    in.clear();
    in.seekg(0);
    bytes = read_stream(in);
  }
  ConstantTable constants;
  const ConstantTable* beside = nullptr;
  // A dump has its large constants beside it: model.tir and model.constants.
  if (auto dot = path.rfind('.'); path != "-" && dot != path.npos) {
    const std::string sidecar = path.substr(0, dot) + ".constants";
    if (access(sidecar.c_str(), R_OK) == 0) {
      constants = load_constants(sidecar);
      beside = &constants;
    }
  }
  return path == "-" ? load_model_bytes(bytes, "<stdin>", {}, options)
                     : load_model_bytes(bytes, path, folder_of(path), options, beside);
}

IRModule load_model_bytes(std::string_view bytes, const std::string& name, const std::string& folder,
                          const LoadModelOptions& options, const ConstantTable* constants) {
  switch (model_kind(bytes)) {
    case ModelKind::artifact:
      fail("T2001", "this is a compiled model", name, "run it, or give the model that it was compiled from");
    case ModelKind::onnx:
      return with_bound_inputs(onnx::import_onnx_bytes(bytes, name, import_options(options), folder),
                               options.bind);
    case ModelKind::script:
      break;
  }
  if (!options.overridden.empty())
    fail("T0503", "script text has no initialisers that are inputs", name, "", ErrorKind::usage);
  if (bytes.empty()) fail("T2001", "the model file is empty", name);
  // Text leaves types out; who inspects a model wants to see them.
  PassContext context;
  IRModule module = run_pass("infer_types", parse_text(bytes, name, constants), context);
  if (!options.dims.empty()) module = specialize_dims(with_entry(std::move(module)), sizes_of(options.dims));
  return options.bind.empty() ? module : bind_inputs(with_entry(std::move(module)), options.bind);
}

}  // namespace tenon
