// SPDX-License-Identifier: Apache-2.0
// A graph's file and the artifact beside it, as the loader of artifacts takes them: it asks for the function
// "tenon.graph.read" when a file is no ELF image but JSON.
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "runtime/artifact.h"
#include "runtime/libraries/graph/graph.h"
#include "runtime/libraries/graph/json.h"
#include "runtime/libraries/register.h"

namespace tenon::operator_graph {
namespace {

constexpr size_t kMostText = size_t(64) << 20;

std::string hex(uint64_t n) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, n);
  return text;
}

/// Replaces the program of `file`, the graph's text, by that of the graph over its artifact.
void read_graph(std::string_view text, const std::string& path, const LoadOptions& options,
                ArtifactFile& file) {
  if (text.size() > kMostText) refuse_graph(path, "it is larger than 64 MiB");
  CodeFile code;
  const Graph graph = parse_graph(text, path, code);
  if (code.name.empty())
    throw Error(ErrorKind::model, "T0620", "the graph names no code to run with", path,
                "write it to a file: tenon compile MODEL --emit json -o GRAPH.json");
  if (code.name.find('/') != code.name.npos)
    throw Error(ErrorKind::model, "T0620", "the name of the graph's code leads out of its folder", path);
  const std::string artifact = path.substr(0, path.rfind('/') + 1) + code.name;
  ArtifactFile own = read_code_artifact(artifact, options);
  if (own.info.hash != code.hash)
    throw Error(ErrorKind::model, "T0620",
                "the graph was written for other code: " + code.name + " has the hash " + hex(own.info.hash) +
                    ", not " + hex(code.hash),
                path, "copy both files of one compilation");
  for (const Node& n : graph.nodes)
    if (n.kind == NodeKind::constant) {
      const auto& all = own.executable.constants;
      const Entry& e = n.outputs[0];
      if (size_t(n.constant) >= all.size() || all[size_t(n.constant)].dtype() != e.dtype ||
          all[size_t(n.constant)].shape() != e.shape)
        throw Error(ErrorKind::model, "T0618", "the constant `" + n.name + "` is not one of the code's",
                    path);
    }
  check_graph(graph, graph_of(own.executable), path);
  own.executable = executable_of(graph, own.executable);
  own.code_path = artifact;
  file = std::move(own);
}

const bool graph_registered = [] {
  register_unless_taken("tenon.graph.read", [](Arguments a) -> Any {
    const LoadOptions options{.check = a[2].as<bool>(), .copy = a[3].as<bool>()};
    const auto* text = static_cast<const std::string_view*>(a[0].as<void*>());
    read_graph(*text, a[1].as<std::string>(), options, *static_cast<ArtifactFile*>(a[4].as<void*>()));
    return {};
  });
  return true;
}();

}  // namespace
}  // namespace tenon::operator_graph
